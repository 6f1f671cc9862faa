"""One file as it is kept under a key, in agent state or in a store: its two formats, and what can be asked of either.

Version 2 is a `FileData`: text or base64, with `encoding`, `mime_type` and times. Version 1 holds a list of lines (or, for what
is no text, base64 under `_binary`) and times. Both are always read. What lies under a key may have been put there by anybody:
whatever does not fit is refused in words, never with a traceback.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from sandboxes.mime import medium, mime_type
from sandboxes.protocol import FileData, FileInfo, ReadResult, encoded
from sandboxes.toolbox.helper import text

FileFormat = Literal["v1", "v2"]
"""How files are written: `v2`, or `v1` for readers that know no other. Both are always read."""

PATH_CAP: Final = 4095
"""Bytes of a path at most, unless the place takes fewer."""
_BINARY: Final = "_binary"
"""The key of base64 in version 1."""
_TIMES: Final = ("created_at", "modified_at")


def stored(path: str, content: bytes, file_format: FileFormat = "v2", *, created_at: str | None = None) -> FileData:
    """`content` as it is kept under `path`, modified now; `created_at` is that of the file it replaces, if there was one."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    times = {"created_at": created_at or now, "modified_at": now}
    plain = _plain(path, content)
    if file_format == "v1":
        kept = {"content": plain.split("\n")} if plain is not None else {"content": [], _BINARY: _base64(content)}
        return cast("FileData", kept | times)
    kind = mime_type(path, binary=plain is None)
    body = plain if plain is not None else _base64(content)
    fields = {"content": body, "encoding": "utf-8" if plain is not None else "base64", "mime_type": kind}
    return cast("FileData", fields | times)


def _plain(path: str, content: bytes) -> str | None:
    # No NUL: databases that keep JSON refuse it in text.
    if medium(path) is not None or b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def content_of(path: str, kept: object) -> bytes:
    """The bytes of what is kept under `path`, in either format. Raises `Refused` when it is no file."""
    if not isinstance(kept, Mapping):
        raise malformed(path, f"it is a {type(kept).__name__}")
    content, encoding = kept.get("content"), kept.get("encoding", "utf-8")
    if isinstance(binary := kept.get(_BINARY), str):
        return _decoded(path, binary)
    if isinstance(content, bytes | bytearray):
        return bytes(content)
    if isinstance(content, list) and all(isinstance(line, str) for line in content):
        content = "\n".join(content)
    if not isinstance(content, str):
        raise malformed(path, f"its content is a {type(content).__name__}")
    if encoding == "base64":
        return _decoded(path, content)
    if encoding != "utf-8":
        raise malformed(path, f"its encoding is {encoding!r:.40}")
    try:
        return content.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise malformed(path, "its text cannot be written as UTF-8") from None


def _decoded(path: str, content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise malformed(path, "its base64 is broken") from None


def malformed(path: str, why: str) -> text.Refused:
    """The refusal of something under a file's key that is no file."""
    return text.Refused("malformed", f"Error: '{path}' is not kept as a file ({why}): delete it, or use another path")


def created_at(kept: object) -> str | None:
    """When the file was made, if that is known."""
    return times_of(kept).get("created_at")


def times_of(kept: object) -> dict[str, str]:
    """The times that are known of what is kept."""
    fields = kept if isinstance(kept, Mapping) else {}
    return {name: fields[name] for name in _TIMES if isinstance(fields.get(name), str)}


def whole(path: str, kept: object) -> FileData:
    """What is kept under `path` as a version 2 `FileData`. Raises `Refused` when it is no file."""
    return cast("FileData", {**encoded(path, content_of(path, kept)), **times_of(kept)})


def may_contain(kept: object, pattern: str) -> bool:
    """Whether `pattern` can be in this file: a quick look that spares most files their encoding."""
    content = kept.get("content") if isinstance(kept, Mapping) else None
    if isinstance(content, str) and cast("Mapping[str, Any]", kept).get("encoding", "utf-8") == "utf-8":
        return pattern in content
    return True


def info(path: str, kept: object) -> FileInfo:
    """The entry of a listing; without a size when what is kept is no file."""
    entry: dict[str, Any] = {"path": path, "is_dir": False}
    if (size := _size(path, kept)) is not None:
        entry["size"] = size
    if (modified := times_of(kept).get("modified_at")) is not None:
        entry["modified_at"] = modified
    return cast("FileInfo", entry)


def _size(path: str, kept: object) -> int | None:
    if isinstance(kept, Mapping) and kept.get("encoding") == "utf-8" and _BINARY not in kept:
        content = kept.get("content")
        if isinstance(content, str) and content.isascii():
            return len(content)
    try:
        return len(content_of(path, kept))
    except text.Refused:
        return None


def window(path: str, kept: object, offset: int, limit: int, byte_offset: int | None = None) -> ReadResult:
    """A window of the file under `path`; see `text.read_window`. Raises `Refused`."""
    content = content_of(path, kept)
    found = text.read_window(text.stream_of(content), len(content), offset, limit, byte_offset, path=path)
    return read_result(path, found, times_of(kept))


def read_result(path: str, found: dict[str, Any], times: Mapping[str, str]) -> ReadResult:
    """What `text.read_window` found in the file `path`, as the protocol's result."""
    encoding = found.pop("encoding")
    kind = mime_type(path, binary=encoding == "base64")
    data = {"content": found.pop("content"), "encoding": encoding, "mime_type": kind, **times}
    return ReadResult(file_data=cast("FileData", data), **found)
