"""A third party's backends, written for the released deepagents package."""

from __future__ import annotations

from typing import Any

from deepagents.backends import protocol as d


class Careless(d.SandboxBackendProtocol):
    """A third party's sandbox: what it does is what was put into it."""

    id = "careless"

    def __init__(self, **does: Any) -> None:
        self.does = {"execute": d.ExecuteResponse("nothing", 0), **does}

    def _do(self, name: str) -> Any:
        done = self.does[name]
        if isinstance(done, Exception):
            raise done
        return done

    def ls(self, path: str) -> d.LsResult:
        return self._do("ls")

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> d.ReadResult:
        return self._do("read")

    def grep(self, pattern: str, path: str | None = None, glob: str | None = None) -> d.GrepResult:  # type: ignore[override]
        return self._do("grep")

    def glob(self, pattern: str, path: str | None = None) -> d.GlobResult:
        return self._do("glob")

    def write(self, file_path: str, content: str) -> d.WriteResult:
        return self._do("write")

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> d.EditResult:
        return self._do("edit")

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[d.FileUploadResponse]:
        return self._do("upload")

    def download_files(self, paths: list[str]) -> list[d.FileDownloadResponse]:
        return self._do("download")

    def execute(self, command: str) -> d.ExecuteResponse:  # type: ignore[override]
        return self._do("execute")


class CarelessFiles(Careless):
    """The same without commands."""

    def __new__(cls, **does: Any) -> Any:
        plain = type("CarelessFiles", (d.BackendProtocol,), dict(Careless.__dict__))
        return plain(**does)
