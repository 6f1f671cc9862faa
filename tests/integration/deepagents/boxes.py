"""What a third party would write: the smallest sandbox of the deepagents package, here over one of ours."""

from __future__ import annotations

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from sandboxes.sandbox import Sandbox


class Box(BaseSandbox):
    """Runs its commands, and so all that `BaseSandbox` makes of them, in a sandbox of ours."""

    def __init__(self, inner: Sandbox) -> None:
        self.inner = inner

    @property
    def id(self) -> str:
        return "box"

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        made = self.inner.execute(command, timeout=timeout)
        return ExecuteResponse(made.output, made.exit_code, made.truncated)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(answer.path, answer.error) for answer in self.inner.upload_files(files)]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [FileDownloadResponse(one.path, one.content, one.error) for one in self.inner.download_files(paths)]
