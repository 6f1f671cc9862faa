"""The protocol's operations on single files and folders, over `Entries`. `searching.py` has those that look at many.

A folder is there as long as a file is in it. Words and codes are those of the toolbox, so that a model cannot tell the two
apart.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar, cast

from sandboxes import protocol as p
from sandboxes.backends.keyed import filedata
from sandboxes.backends.keyed.entries import Entries
from sandboxes.toolbox.helper import files as words
from sandboxes.toolbox.helper import text

NAME_CAP: Final = 255
"""Bytes of one name in a path at most."""
_CODES: Final = frozenset({p.FILE_NOT_FOUND, p.PERMISSION_DENIED, p.IS_DIRECTORY, p.INVALID_PATH, p.ALREADY_EXISTS})

R = TypeVar("R")
P = ParamSpec("P")
Operation: TypeAlias = Callable[Concatenate[Entries, P], Coroutine[Any, Any, R]]
"""One of the protocol's methods, over any entries."""


def answering(kind: Callable[..., R]) -> Callable[[Operation[P, R]], Operation[P, R]]:
    """Make an operation answer a refusal with a result of this kind."""

    def decorate(operation: Operation[P, R]) -> Operation[P, R]:
        @wraps(operation)
        async def answer(entries: Entries, /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return await operation(entries, *args, **kwargs)
            except text.Refused as exc:
                return kind(error=exc.message)

        return answer

    return decorate


def checked(path: str, cap: int = filedata.PATH_CAP) -> str:
    """A path from outside as the key of a file, of at most `cap` bytes. Raises `Refused`."""
    place: str = text.absolute(path, "/")
    try:
        names = [len(name.encode("utf-8")) for name in place.split("/")]
    except UnicodeEncodeError:
        raise text.Refused(p.INVALID_PATH, f"Error: Path {path!r} cannot be written as UTF-8") from None
    if max(names) > NAME_CAP or sum(names) + len(names) - 1 > cap:
        raise _refusal(errno.ENAMETOOLONG, place)
    return place


def regular(key: str) -> bool:
    """Whether a key is one that `checked` can give; files under others belong to somebody else."""
    return key.startswith("/") and not any(part in ("", ".", "..") for part in key[1:].split("/")) and "\0" not in key


def below(folder: str) -> str:
    """What the paths of all files in a folder begin with."""
    return folder if folder == "/" else folder + "/"


def ancestors(path: str) -> list[str]:
    """The folders that a file needs, without the root."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


def _refusal(number: int, path: str) -> text.Refused:
    return words.refusal(OSError(number, os.strerror(number)), path)


async def absent(entries: Entries, path: str) -> text.Refused:
    """Why there is no file `path`, when nothing is kept under it."""
    if await _folders(entries, [path]):
        return _refusal(errno.EISDIR, path)
    return await missing(entries, path)


async def missing(entries: Entries, path: str) -> text.Refused:
    """Why nothing at all is at `path`."""
    return _refusal(errno.ENOTDIR if await entries.load_all(ancestors(path)) else errno.ENOENT, path)


async def _folders(entries: Entries, paths: Sequence[str]) -> set[str]:
    """Which of these paths are folders."""
    wanted = {path for path in paths if path != "/"}
    found = {"/"} & set(paths)
    if not wanted:
        return found
    async with aclosing(entries.listing(below(os.path.commonpath(wanted)))) as listed:
        async for info in listed:
            if regular(info["path"]):
                found |= wanted.intersection(ancestors(info["path"]))
            if found >= wanted:
                break
    return found


async def _present(entries: Entries, path: str) -> p.FileData:
    kept = await entries.load(path)
    if kept is None:
        raise await absent(entries, path)
    return kept


@answering(p.LsResult)
async def ls(entries: Entries, path: str) -> p.LsResult:
    """See the protocol."""
    folder = checked(path)
    prefix, found = below(folder), dict[str, p.FileInfo]()
    async with aclosing(entries.listing(prefix)) as listed:
        async for info in listed:
            if not regular(info["path"]):
                continue
            name, slash, _ = info["path"][len(prefix) :].partition("/")
            place = prefix + name + slash
            found[place] = p.FileInfo(path=place, is_dir=True) if slash else info
    if not found and folder != "/":
        raise await _no_folder(entries, folder)
    return p.LsResult(entries=[found[place] for place in sorted(found)])


async def _no_folder(entries: Entries, path: str) -> text.Refused:
    if await entries.load_all([path, *ancestors(path)]):
        return text.Refused(p.INVALID_PATH, f"Error: '{path}' is not a directory")
    return text.Refused(p.FILE_NOT_FOUND, f"Error: Directory '{path}' not found")


@answering(p.ReadResult)
async def read(entries: Entries, path: str, offset: int, limit: int, *, byte_offset: int | None = None) -> p.ReadResult:
    """See the protocol."""
    place = checked(path)
    return filedata.window(place, await _present(entries, place), offset, limit, byte_offset)


@answering(p.ReadRawResult)
async def read_raw(entries: Entries, path: str) -> p.ReadRawResult:
    """See the protocol."""
    place = checked(path)
    return p.ReadRawResult(data=filedata.whole(place, await _present(entries, place)))


@answering(p.WriteResult)
async def write(entries: Entries, path: str, content: str) -> p.WriteResult:
    """See the protocol."""
    data, place = utf8("content", content), checked(path, entries.path_cap)
    async with entries.changing(place):
        around = await entries.load_all([place, *ancestors(place)])
        if place not in around and around:
            raise _refusal(errno.ENOTDIR, place)
        if around or await _folders(entries, [place]):
            raise words.exists(place)
        saved = {place: filedata.stored(place, data, entries.file_format)}
        await entries.save(saved)
    return p.WriteResult(path=place, files_update=entries.files_update(saved))


def utf8(what: str, said: str) -> bytes:
    """The bytes of what somebody said; a refusal calls it `what`."""
    try:
        return said.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        message = f"Error: the {what} cannot be written as UTF-8: {exc.reason}"
        raise text.Refused("invalid_argument", message) from None


@answering(p.EditResult)
async def edit(entries: Entries, path: str, old_string: str, new_string: str, replace_all: bool) -> p.EditResult:
    """See the protocol."""
    place = checked(path)
    async with entries.changing(place):
        kept = await _present(entries, place)
        try:
            before = filedata.content_of(place, kept).decode("utf-8")
        except UnicodeDecodeError:
            message = f"Error: '{place}' is not UTF-8 text: it cannot be edited"
            raise text.Refused("invalid_argument", message) from None
        changed, count = text.replace(before, old_string, new_string, replace_all, place)
        made = filedata.created_at(kept)
        saved = {place: filedata.stored(place, utf8("content", changed), entries.file_format, created_at=made)}
        await entries.save(saved)
    return p.EditResult(path=place, occurrences=count, files_update=entries.files_update(saved))


@answering(p.DeleteResult)
async def delete(entries: Entries, path: str) -> p.DeleteResult:
    """See the protocol."""
    place = checked(path)
    if place == "/":
        raise text.Refused(p.PERMISSION_DENIED, "Error: '/' cannot be deleted")
    gone = [place]
    if await entries.load(place) is None:
        async with aclosing(entries.listing(below(place))) as listed:
            gone = [info["path"] async for info in listed]
    if not gone:
        raise await missing(entries, place)
    await entries.remove(gone)
    return p.DeleteResult(path=place)


async def upload_files(entries: Entries, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
    """See the protocol."""
    asked = [_place(path, entries.path_cap) for path, _ in files]
    places = [place for place in asked if isinstance(place, str)]
    known = await entries.load_all(sorted({name for place in places for name in (place, *ancestors(place))}))
    folders = await _folders(entries, [place for place in places if place not in known])
    fresh: dict[str, p.FileData] = {}
    outcomes: list[p.FileUploadResponse] = []
    for (path, content), place in zip(files, asked, strict=True):
        refused = place if isinstance(place, text.Refused) else _obstacle(place, known, folders)
        if refused is None:
            made = filedata.created_at(known.get(place))
            known[place] = fresh[place] = filedata.stored(place, content, entries.file_format, created_at=made)
            folders.update(ancestors(place))
        outcomes.append(p.FileUploadResponse(path, error=None if refused is None else file_error(refused)))
    if fresh:
        await entries.save(fresh)
    return outcomes


def _place(path: str, cap: int = filedata.PATH_CAP) -> str | text.Refused:
    try:
        return checked(path, cap)
    except text.Refused as exc:
        return exc


def _obstacle(place: str, known: dict[str, p.FileData], folders: set[str]) -> text.Refused | None:
    if place in folders:
        return _refusal(errno.EISDIR, place)
    if any(name in known for name in ancestors(place)):
        return _refusal(errno.ENOTDIR, place)
    return None


async def download_files(entries: Entries, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
    """See the protocol."""
    asked = [_place(path) for path in paths]
    found = await entries.load_all(sorted({place for place in asked if isinstance(place, str)}))
    outcomes: list[p.FileDownloadResponse] = []
    for path, place in zip(paths, asked, strict=True):
        try:
            if isinstance(place, text.Refused):
                raise place
            if place not in found:
                raise await absent(entries, place)
            outcomes.append(p.FileDownloadResponse(path, content=filedata.content_of(place, found[place])))
        except text.Refused as exc:
            outcomes.append(p.FileDownloadResponse(path, error=file_error(exc)))
    return outcomes


def file_error(refused: Any) -> p.FileOperationError | str:
    """The code of a refusal where the protocol has one, else its message."""
    return cast("p.FileOperationError", refused.code if refused.code in _CODES else refused.message)
