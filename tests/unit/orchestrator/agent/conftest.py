"""A backend over a folder of this machine, with real files and real commands, and a way to run an agent on it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent.run import AgentOutcome, run_agent
from orchestrator.agentspec import AgentSpec
from sandboxes import protocol as p
from sandboxes.toolbox.calls import next_call_id
from sandboxes.toolbox.helper import files, search, text


class FolderBackend(p.SandboxBackendProtocol):
    """Not isolated: for tests of what stands above a sandbox. `call_ids` are those that its mutating calls were given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.call_ids: list[str | None] = []

    @property
    def id(self) -> str:
        return "folder"

    @property
    def workdir(self) -> str:
        return str(self.folder)

    @property
    def artifacts_root(self) -> str:
        return f"{self.folder}.artifacts"

    def _path(self, path: str | None) -> str:
        return text.absolute(path or ".", str(self.folder))

    def ls(self, path: str) -> p.LsResult:
        try:
            return p.LsResult(**files.ls(self._path(path)))
        except text.Refused as exc:
            return p.LsResult(error=exc.message)

    def read(self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT) -> p.ReadResult:
        try:
            found = files.read(self._path(file_path), offset, limit, None)
        except text.Refused as exc:
            return p.ReadResult(error=exc.message)
        del found["modified_at"]
        data = p.FileData(content=found.pop("content"), encoding=found.pop("encoding"))
        return p.ReadResult(file_data=data, **found)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> p.GrepResult:
        try:
            return p.GrepResult(**search.grep(pattern, self._path(path), glob, max_count, lambda: False))
        except text.Refused as exc:
            return p.GrepResult(error=exc.message)

    def glob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        try:
            return p.GlobResult(**search.glob(pattern, self._path(path), lambda: False))
        except text.Refused as exc:
            return p.GlobResult(error=exc.message)

    def write(self, file_path: str, content: str) -> p.WriteResult:
        self.call_ids.append(next_call_id())
        try:
            files.put(self._path(file_path), content.encode(), True)
        except text.Refused as exc:
            return p.WriteResult(error=exc.message)
        return p.WriteResult(path=self._path(file_path))

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        self.call_ids.append(next_call_id())
        try:
            found = files.edit(self._path(file_path), old_string, new_string, replace_all)
        except text.Refused as exc:
            return p.EditResult(error=exc.message)
        return p.EditResult(path=self._path(file_path), occurrences=found["occurrences"])

    def delete(self, file_path: str) -> p.DeleteResult:
        self.call_ids.append(next_call_id())
        try:
            return p.DeleteResult(**files.delete(self._path(file_path)))
        except text.Refused as exc:
            return p.DeleteResult(error=exc.message)

    def upload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        raise NotImplementedError

    def download_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        return [p.FileDownloadResponse(path, content=Path(self._path(path)).read_bytes()) for path in paths]

    def execute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        self.call_ids.append(next_call_id())
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
        return p.ExecuteResponse(output=done.stdout.decode("utf-8", "replace"), exit_code=done.returncode)


class Agents:
    """Runs agents on a folder, and keeps the events of the last one."""

    def __init__(self, folder: Path, files: Path) -> None:
        self.backend: p.SandboxBackendProtocol = FolderBackend(folder)
        self.files = files
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def run(self, script: str | bytes, model: str = "scripted:script.yaml", **spec: Any) -> AgentOutcome:
        """Run an agent whose frozen model file is `script`."""
        self.events.clear()
        (self.files / "model.yaml").write_bytes(script.encode() if isinstance(script, str) else script)
        return await run_agent(
            AgentSpec(**{"prompt": "Do it.", "model": model, **spec}),
            self.backend,
            emit=lambda kind, data: self.events.append((kind, data)),
            files=self.files,
            api_key=None,
            thread_id="run-1",
        )

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The data of all events of a type."""
        return [data for found, data in self.events if found == kind]

    def told(self) -> list[tuple[str, dict[str, Any]]]:
        """All events, without the ids of answers: those are others each time."""
        return [(kind, {k: v for k, v in data.items() if kind != "model.message" or k != "id"}) for kind, data in self.events]

    def results(self) -> dict[str, str]:
        """Texts of the tool results, by the id of their call."""
        return {data["id"]: data["text"] for data in self.of("tool.result")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "workspace"
    found.mkdir()
    return found


@pytest.fixture
def backend(folder: Path) -> FolderBackend:
    return FolderBackend(folder)


@pytest.fixture
def agents(folder: Path, tmp_path: Path) -> Agents:
    frozen = tmp_path / "files"
    frozen.mkdir()
    return Agents(folder, frozen)


@pytest.fixture
def write(folder: Path) -> Callable[[str, str], Path]:
    """Write a file below the folder."""

    def write(name: str, content: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    return write
