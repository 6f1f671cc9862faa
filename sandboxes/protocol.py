"""The backend protocol: what an agent's file tools (and `execute`) call, and what they get back.

This is the seeds' second version of the protocol. Every query returns a result object with an `error`; nothing that a model
can mend by itself raises. Each method has an async twin. A backend implements one form of each: this base class gives the
async form of a backend that is sync by nature (in a thread); `sandboxes.portal.AsyncBackend` gives the sync form of a
backend that is async by nature.

Paths are POSIX paths, absolute. A sandbox backend takes relative ones too, from its working directory. `..` is refused.
"""

from __future__ import annotations

import asyncio
import base64
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NotRequired, TypedDict

from sandboxes.deprecated import FirstVersionNames
from sandboxes.mime import medium, mime_type
from sandboxes.toolbox.helper.text import SNIFF, is_binary

FileOperationError = Literal["file_not_found", "permission_denied", "is_directory", "invalid_path", "already_exists"]
"""Codes for what went wrong with one file of a batch; a model can read and mend each of them."""

FILE_NOT_FOUND: Final = "file_not_found"
PERMISSION_DENIED: Final = "permission_denied"
IS_DIRECTORY: Final = "is_directory"
INVALID_PATH: Final = "invalid_path"
ALREADY_EXISTS: Final = "already_exists"

DEFAULT_READ_LIMIT: Final = 2000
"""Lines that `read` returns when it is not told how many."""


class FileInfo(TypedDict):
    """One entry of a listing. Only `path` is always there."""

    path: str
    """Absolute path; a directory's ends with `/`."""
    is_dir: NotRequired[bool]
    size: NotRequired[int]
    """Bytes."""
    modified_at: NotRequired[str]
    """ISO 8601, UTC."""


class GrepMatch(TypedDict):
    """One matching line."""

    path: str
    line: int
    """1-based."""
    text: str
    """The line without its line ending."""


class FileData(TypedDict):
    """The content of a file."""

    content: str
    """Text, or base64 of the bytes."""
    encoding: str
    """`utf-8` or `base64`."""
    mime_type: NotRequired[str]
    """By the extension of its name; see `sandboxes.mime`."""
    created_at: NotRequired[str]
    modified_at: NotRequired[str]
    """ISO 8601, UTC."""


@dataclass
class LsResult:
    """`entries` sorted by path, or `error`."""

    error: str | None = None
    entries: list[FileInfo] | None = None


@dataclass
class ReadResult:
    """A window of a text file, or the whole of a binary one.

    `start_line` and `end_line` are 1-based and come together; `next_offset` is the `offset` that continues the reading
    (None at the end of the file). `next_byte` is set when the window had to be cut inside a line: reading on with
    `byte_offset=next_byte` reaches the rest of that line.
    """

    error: str | None = None
    file_data: FileData | None = None
    total_lines: int | None = None
    start_line: int | None = None
    end_line: int | None = None
    next_offset: int | None = None
    no_lines_requested: bool = False
    next_byte: int | None = None

    def __post_init__(self) -> None:
        """Refuse windows that contradict themselves: a wrong `next_offset` would skip lines silently."""
        if (self.start_line is None) != (self.end_line is None):
            raise ValueError("ReadResult: start_line and end_line come together")
        if self.start_line is None or self.end_line is None:
            if self.next_offset is not None or self.total_lines is not None:
                raise ValueError("ReadResult: next_offset and total_lines need a window (start_line, end_line)")
            return
        if self.no_lines_requested or not 1 <= self.start_line <= self.end_line:
            raise ValueError(f"ReadResult: no window {self.start_line}..{self.end_line}")
        if self.total_lines is not None and self.total_lines < self.end_line:
            raise ValueError(f"ReadResult: total_lines {self.total_lines} is less than end_line {self.end_line}")
        if self.next_offset is not None and self.next_offset != self.end_line:
            raise ValueError(f"ReadResult: next_offset {self.next_offset} must equal end_line {self.end_line}")

    @property
    def content(self) -> str | bytes | None:
        """The text of a text file, the bytes of a binary one; None after an error."""
        if self.file_data is None:
            return None
        content = self.file_data["content"]
        return base64.b64decode(content) if self.file_data["encoding"] == "base64" else content

    @property
    def mime_type(self) -> str | None:
        """The type of the file by its name; None after an error."""
        return self.file_data.get("mime_type") if self.file_data else None


@dataclass
class ReadRawResult:
    """`data` of the whole file, or `error`."""

    error: str | None = None
    data: FileData | None = None


@dataclass
class GrepResult:
    """`matches` in order of path and line; with `truncated` they are right but not all."""

    error: str | None = None
    matches: list[GrepMatch] | None = None
    truncated: bool = False


GlobTruncationReason = Literal["budget", "unreadable", "transport"]
"""Why a glob is incomplete: time or match cap; a folder that cannot be read; output cut on the way."""


@dataclass
class GlobResult:
    """`matches` (files only) sorted by path; with `truncated` they are right but not all."""

    error: str | None = None
    matches: list[FileInfo] | None = None
    truncated: bool = False
    truncation_reason: GlobTruncationReason | None = None


@dataclass
class WriteResult:
    """`path` of the file that was created, or `error`. `files_update` is for backends whose files are agent state."""

    error: str | None = None
    path: str | None = None
    files_update: dict[str, FileData] | None = None


@dataclass
class EditResult:
    """`path` and how many `occurrences` were replaced, or `error`."""

    error: str | None = None
    path: str | None = None
    files_update: dict[str, FileData] | None = None
    occurrences: int | None = None


@dataclass
class DeleteResult:
    """`path` of what was deleted, or `error`."""

    error: str | None = None
    path: str | None = None


@dataclass
class FileUploadResponse:
    """Outcome for one file of an upload: no `error` means that it is there, whole."""

    path: str
    error: FileOperationError | str | None = None


@dataclass
class FileDownloadResponse:
    """Outcome for one file of a download: `content` or `error`."""

    path: str
    content: bytes | None = None
    error: FileOperationError | str | None = None


@dataclass
class ExecuteResponse:
    """What a command left behind.

    `output` is stdout and stderr as they came, decoded with replacement. When it was longer than the cap, `truncated` is
    set, `output` holds its head and its tail, and `output_file` names the file in the sandbox that holds the rest.
    `exit_code` is 124 after a timeout, 128 + N after signal N, as in a shell.
    """

    output: str = ""
    exit_code: int | None = None
    truncated: bool = False
    timed_out: bool = False
    output_file: str | None = None


def encoded(path: str, content: bytes) -> FileData:
    """The content of the file `path` as `FileData`: text when its name and its bytes are those of text, else base64."""
    if medium(path) is None and not is_binary(content[:SNIFF]):
        try:
            return {"content": content.decode("utf-8"), "encoding": "utf-8", "mime_type": mime_type(path)}
        except UnicodeDecodeError:
            pass
    text = base64.b64encode(content).decode("ascii")
    return {"content": text, "encoding": "base64", "mime_type": mime_type(path, binary=True)}


def _raw(response: FileDownloadResponse) -> ReadRawResult:
    if response.content is None:
        return ReadRawResult(error=described(response.path, response.error or FILE_NOT_FOUND))
    return ReadRawResult(data=encoded(response.path, response.content))


_DESCRIPTIONS: Final = {
    FILE_NOT_FOUND: "Error: File '{}' not found",
    PERMISSION_DENIED: "Error: '{}' cannot be used: permission denied",
    IS_DIRECTORY: "Error: '{}' is a directory",
    INVALID_PATH: "Error: '{}' is not a valid path",
    ALREADY_EXISTS: "Error: '{}' exists already: read it and edit it, or write to another path",
}


def described(path: str, error: FileOperationError | str) -> str:
    """What went wrong with one file of a batch, in words."""
    return _DESCRIPTIONS[error].format(path) if error in _DESCRIPTIONS else error


class BackendProtocol(FirstVersionNames, ABC):
    """Files behind one interface. See each method for its contract."""

    @abstractmethod
    def ls(self, path: str) -> LsResult:
        """List a directory, not recursively, sorted by path. A missing directory is an error."""

    @abstractmethod
    def read(self, file_path: str, offset: int = 0, limit: int = DEFAULT_READ_LIMIT) -> ReadResult:
        """Read `limit` lines from line `offset` (0-based) of a text file; a binary file comes whole, as base64.

        Missing file: `error="Error: File '/x' not found"`. An offset past the end is an error that says how long it is.
        """

    def read_raw(self, file_path: str) -> ReadRawResult:
        """Read a file whole, whatever is in it. A backend that keeps times gives them, too."""
        return _raw(self.download_files([file_path])[0])

    @abstractmethod
    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Find lines that contain `pattern` literally (never a regular expression), in text files below `path`.

        `glob` filters the files (see `glob` for its rules); `max_count` caps the number of matches. As with `grep -r`, what
        links below `path` lead to is not searched.
        """

    @abstractmethod
    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files by pattern. Without `/` it means the base name at any depth; with `/` it is relative to `path`
        (a leading `/` anchors it there too); `**` crosses directories; `*` does not match a leading dot."""

    @abstractmethod
    def write(self, file_path: str, content: str) -> WriteResult:
        """Create a file, with its parent directories. Create-only: an existing file is an error and stays as it is."""

    @abstractmethod
    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replace an exact string. It must occur exactly once, unless `replace_all`."""

    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file, or a directory with all that is in it. Optional: a backend without it says so."""
        return DeleteResult(error=f"Error: {type(self).__name__} cannot delete files")

    def upload_files(self, files: Sequence[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write many files, overwriting. Answers in the order of the request; each succeeds or fails by itself. Optional."""
        return [FileUploadResponse(path, error=f"Error: {type(self).__name__} cannot take uploads") for path, _ in files]

    def download_files(self, paths: Sequence[str]) -> list[FileDownloadResponse]:
        """Read many files whole. Answers in the order of the request; each succeeds or fails by itself. Optional."""
        return [FileDownloadResponse(path, error=f"Error: {type(self).__name__} cannot give downloads") for path in paths]

    async def als(self, path: str) -> LsResult:
        """Async form of `ls`."""
        return await asyncio.to_thread(self.ls, path)

    async def aread(self, file_path: str, offset: int = 0, limit: int = DEFAULT_READ_LIMIT) -> ReadResult:
        """Async form of `read`."""
        return await asyncio.to_thread(self.read, file_path, offset, limit)

    async def aread_raw(self, file_path: str) -> ReadRawResult:
        """Async form of `read_raw`."""
        return _raw((await self.adownload_files([file_path]))[0])

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Async form of `grep`."""
        return await asyncio.to_thread(self.grep, pattern, path, glob, max_count=max_count)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Async form of `glob`."""
        return await asyncio.to_thread(self.glob, pattern, path)

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Async form of `write`."""
        return await asyncio.to_thread(self.write, file_path, content)

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        """Async form of `edit`."""
        return await asyncio.to_thread(self.edit, file_path, old_string, new_string, replace_all)

    async def adelete(self, file_path: str) -> DeleteResult:
        """Async form of `delete`."""
        return await asyncio.to_thread(self.delete, file_path)

    async def aupload_files(self, files: Sequence[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Async form of `upload_files`."""
        return await asyncio.to_thread(self.upload_files, files)

    async def adownload_files(self, paths: Sequence[str]) -> list[FileDownloadResponse]:
        """Async form of `download_files`."""
        return await asyncio.to_thread(self.download_files, paths)


class SandboxBackendProtocol(BackendProtocol):
    """A backend that can also run commands, in isolation."""

    @property
    @abstractmethod
    def id(self) -> str:
        """What tells this sandbox from every other."""

    @abstractmethod
    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a shell command (`sh -c`) in the working directory and wait for it.

        After `timeout` seconds its whole process tree is killed. A background process that it leaves behind does not
        delay the answer. Raises `SandboxError` when the sandbox, not the command, fails.
        """

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Async form of `execute`."""
        return await asyncio.to_thread(self.execute, command, timeout=timeout)
