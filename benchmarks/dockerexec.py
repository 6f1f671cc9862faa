"""The peer of `toolbox.py`: deepagents' `BaseSandbox` over `docker exec`, as little as it asks for.

Commands go through the Docker SDK's exec, files through its archives: one call each, one file after the other, as the
protocol of deepagents has it (each file succeeds or fails by itself). It works on the container that ours works on.
"""

from __future__ import annotations

import io
import tarfile

import docker
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox
from docker.errors import APIError

WORKDIR = "/workspace"


class DockerExecSandbox(BaseSandbox):
    """A container's files and commands. Paths of uploads are below `WORKDIR`: the rest of the container is read-only."""

    def __init__(self, container: str) -> None:
        self._client = docker.from_env()
        self._container = self._client.containers.get(container)
        uid, _, gid = self._container.attrs["Config"]["User"].partition(":")
        self._uid, self._gid = int(uid or 0), int(gid or uid or 0)

    @property
    def id(self) -> str:
        """The container's."""
        return str(self._container.id)

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run it with `sh -c`; `timeout` is not enforced."""
        code, output = self._container.exec_run(["sh", "-c", command], workdir=WORKDIR)
        assert isinstance(output, bytes)  # it is a stream only when one is asked for
        return ExecuteResponse(output.decode(errors="replace"), code)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """One archive for each file."""
        return [self._upload(path, content) for path, content in files]

    def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        try:
            self.put([(path, content)])
        except APIError as exc:
            return FileUploadResponse(path, str(exc.explanation))
        return FileUploadResponse(path)

    def put(self, files: list[tuple[str, bytes]]) -> None:
        """All of them in one archive: what a more careful subclass could do."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path, content in files:
                entry = tarfile.TarInfo(path.removeprefix(f"{WORKDIR}/"))
                entry.size, entry.uid, entry.gid = len(content), self._uid, self._gid
                archive.addfile(entry, io.BytesIO(content))
        self._container.put_archive(WORKDIR, packed.getvalue())

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """One archive for each file."""
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        try:
            pieces, _ = self._container.get_archive(path)
        except APIError as exc:
            return FileDownloadResponse(path, error=str(exc.explanation))
        with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
            member = archive.extractfile(archive.getmembers()[0])
            return FileDownloadResponse(path, member.read() if member else b"")

    def close(self) -> None:
        """Let go of the engine."""
        self._client.close()
