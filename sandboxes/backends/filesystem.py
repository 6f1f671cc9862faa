"""Files on this machine's disk."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from io import FileIO
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from sandboxes import protocol as p
from sandboxes.backends.disk.descriptors import LISTING, READING, mode_of, put, regular, remove, too_large
from sandboxes.backends.disk.rooted import Host, Rooted, Tree, status
from sandboxes.backends.disk.search import DiskSearch, below
from sandboxes.backends.keyed.operations import file_error
from sandboxes.mime import mime_type
from sandboxes.toolbox.helper import files, text

R = TypeVar("R")
P = ParamSpec("P")

MEGABYTE: Final = 1024 * 1024
_CHANGING: Final = threading.Lock()
"""Changes of existing files read, change and write: one at a time, so that none undoes another. Of the whole process, because
a factory makes a backend for each call."""


def _answering(
    kind: Callable[..., R],
) -> Callable[[Callable[Concatenate[FilesystemBackend, P], R]], Callable[Concatenate[FilesystemBackend, P], R]]:
    """Make an operation answer a refusal with a result of this kind."""

    def decorate(
        operation: Callable[Concatenate[FilesystemBackend, P], R],
    ) -> Callable[Concatenate[FilesystemBackend, P], R]:
        @wraps(operation)
        def answer(backend: FilesystemBackend, /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return operation(backend, *args, **kwargs)
            except text.Refused as exc:
                return kind(error=exc.message)

        return answer

    return decorate


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise files.refusal(exc, path) from exc


class FilesystemBackend(p.BackendProtocol):
    """Files below `root_dir`, or anywhere on this machine.

    With `virtual_mode` the backend's `/` is `root_dir` (by default the working directory), all paths mean that, in results,
    too, and nothing leads out: `..` and a leading `~` are refused, a symbolic link is followed only as long as it stays inside,
    and a folder that is swapped for a link meanwhile gains nothing. This is about paths, not about processes: it is no sandbox.

    Without it (the default) absolute paths are this machine's own, relative ones begin in `root_dir`, and links are followed.
    This gives no security at all: an agent reads every file that this process can, keys and credentials too, and what it
    changes is changed for good. It is for tools on a developer's own machine and for CI; a server needs a sandbox, agent state
    or a store. Let a human approve what matters.

    What a model can mend is an error in a result, `..` in a path included: nothing raises for it. Files of more than
    `max_file_size_mb` are not read, edited or searched; `download_files` and `read_raw` take them.
    """

    def __init__(
        self, root_dir: str | os.PathLike[str] | None = None, virtual_mode: bool = False, max_file_size_mb: float = 10
    ) -> None:
        if max_file_size_mb <= 0:
            raise ValueError(f"max_file_size_mb must be more than 0, not {max_file_size_mb}")
        self.root_dir = Path(root_dir if root_dir is not None else ".").resolve()
        self.virtual_mode = virtual_mode
        self.max_file_size = int(max_file_size_mb * MEGABYTE)
        self._tree: Tree = Rooted(self.root_dir) if virtual_mode else Host()
        self._search = DiskSearch(self._tree, self.max_file_size)

    @property
    def workdir(self) -> str:
        """Where relative paths begin."""
        return "/" if self.virtual_mode else str(self.root_dir)

    def _place(self, path: str) -> str:
        """A path from outside, absolute. Raises `Refused`."""
        if self.virtual_mode and path.startswith("~"):
            raise text.Refused(p.INVALID_PATH, f"Error: Path '{path}' must not begin with '~': there is no home here")
        place: str = text.absolute(path, self.workdir)
        return place

    @_answering(p.LsResult)
    def ls(self, path: str) -> p.LsResult:
        """See the protocol. A symbolic link that leads nowhere, or out, is listed as what it is."""
        place = self._place(path)
        try:
            folder = self._tree.open(place, LISTING)
        except NotADirectoryError:
            raise text.Refused(p.INVALID_PATH, f"Error: '{place}' is not a directory") from None
        except FileNotFoundError:
            raise text.Refused(p.FILE_NOT_FOUND, f"Error: Directory '{place}' not found") from None
        except OSError as exc:
            raise files.refusal(exc, place) from exc
        try:
            with _refusing(place), os.scandir(folder) as found:
                entries = [self._described(below(place) + entry.name, entry) for entry in found]
        finally:
            os.close(folder)
        return p.LsResult(entries=sorted(entries, key=lambda info: info["path"]))

    def _described(self, path: str, entry: os.DirEntry[str]) -> p.FileInfo:
        known = entry.stat(follow_symlinks=False)
        if entry.is_symlink():
            with suppress(OSError, text.Refused):
                known = status(self._tree, path)
        info: p.FileInfo = files.describe(path, known)
        return info

    @_answering(p.ReadResult)
    def read(
        self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT, *, byte_offset: int | None = None
    ) -> p.ReadResult:
        """See the protocol. With `byte_offset` the window starts at that byte, whatever line it is in."""
        place = self._place(file_path)
        with self._reading(place) as (file, known), _refusing(place):
            self._check_size(place, known)
            window = text.read_window(file, known.st_size, offset, limit, byte_offset, path=place)
        encoding = window.pop("encoding")
        data = p.FileData(
            content=window.pop("content"),
            encoding=encoding,
            mime_type=mime_type(place, binary=encoding == "base64"),
            modified_at=files.iso(known.st_mtime),
        )
        return p.ReadResult(file_data=data, **window)

    @contextmanager
    def _reading(self, path: str) -> Iterator[tuple[FileIO, os.stat_result]]:
        with _refusing(path):
            descriptor = self._tree.open(path, READING)
        file, known = regular(descriptor, path)
        with file:
            yield file, known

    def _check_size(self, path: str, known: os.stat_result) -> None:
        if known.st_size > self.max_file_size:
            raise too_large(path, known.st_size, self.max_file_size)

    async def aread(
        self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT, *, byte_offset: int | None = None
    ) -> p.ReadResult:
        """Async form of `read`."""
        more = {} if byte_offset is None else {"byte_offset": byte_offset}
        return await asyncio.to_thread(self.read, file_path, offset, limit, **more)

    @_answering(p.ReadRawResult)
    def read_raw(self, file_path: str) -> p.ReadRawResult:
        """See the protocol."""
        place = self._place(file_path)
        with self._reading(place) as (file, known), _refusing(place):
            data = p.encoded(place, file.readall())
        data["modified_at"] = files.iso(known.st_mtime)
        return p.ReadRawResult(data=data)

    async def aread_raw(self, file_path: str) -> p.ReadRawResult:
        """Async form of `read_raw`."""
        return await asyncio.to_thread(self.read_raw, file_path)

    @_answering(p.GrepResult)
    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> p.GrepResult:
        """See the protocol. ripgrep helps where it is installed; the answers are the same without."""
        return self._search.grep(pattern, self._place("." if path is None else path), glob, max_count)

    @_answering(p.GlobResult)
    def glob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        """See the protocol."""
        return self._search.glob(pattern, self._place("." if path is None else path))

    @_answering(p.WriteResult)
    def write(self, file_path: str, content: str) -> p.WriteResult:
        """See the protocol."""
        data, place = _bytes(content), self._place(file_path)
        with _refusing(place), self._tree.place(place, make=True) as (folder, name):
            if mode_of(folder, name) is not None:
                raise files.exists(place)
            try:
                put(folder, name, data, mode=None, exclusive=True)
            except FileExistsError:
                raise files.exists(place) from None
        return p.WriteResult(path=place)

    @_answering(p.EditResult)
    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        """See the protocol."""
        place = self._place(file_path)
        with _CHANGING:
            with self._reading(place) as (file, known), _refusing(place):
                self._check_size(place, known)
                before = file.readall()
            try:
                changed, count = text.replace(before.decode("utf-8"), old_string, new_string, replace_all, place)
            except UnicodeDecodeError:
                message = f"Error: '{place}' is not UTF-8 text: it cannot be edited"
                raise text.Refused("invalid_argument", message) from None
            self._replace(place, _bytes(changed))
        return p.EditResult(path=place, occurrences=count)

    def _replace(self, path: str, content: bytes) -> None:
        """Write a file, also over one that is there, where a link leads, with the permissions that it had."""
        with _refusing(path), self._tree.place(path, make=True, follow=True) as (folder, name):
            put(folder, name, content, mode=mode_of(folder, name), exclusive=False)

    @_answering(p.DeleteResult)
    def delete(self, file_path: str) -> p.DeleteResult:
        """See the protocol. Of a symbolic link it deletes the link."""
        place = self._place(file_path)
        if place == "/":
            raise text.Refused(p.PERMISSION_DENIED, "Error: '/' cannot be deleted")
        with _refusing(place), self._tree.place(place) as (folder, name):
            remove(folder, name)
        return p.DeleteResult(path=place)

    def upload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """See the protocol. A file that is there keeps its permissions."""
        return [p.FileUploadResponse(path, error=self._uploaded(path, content)) for path, content in files]

    def _uploaded(self, path: str, content: bytes) -> p.FileOperationError | str | None:
        try:
            with _CHANGING:
                self._replace(self._place(path), content)
        except text.Refused as exc:
            return file_error(exc)
        return None

    def download_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """See the protocol."""
        return [self._downloaded(path) for path in paths]

    def _downloaded(self, path: str) -> p.FileDownloadResponse:
        try:
            place = self._place(path)
            with self._reading(place) as (file, _), _refusing(place):
                return p.FileDownloadResponse(path, content=file.readall())
        except text.Refused as exc:
            return p.FileDownloadResponse(path, error=file_error(exc))


def _bytes(content: str) -> bytes:
    try:
        return content.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise text.Refused("invalid_argument", f"Error: the content cannot be written as UTF-8: {exc.reason}") from None
