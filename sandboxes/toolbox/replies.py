"""Replies of the helper as the protocol's result types. Whatever does not fit is a `ProtocolError`."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, cast, get_args

from sandboxes import protocol as p
from sandboxes.errors import ProtocolError
from sandboxes.mime import mime_type
from sandboxes.sandbox import CommandResult, FileEntry
from sandboxes.toolbox.client import Refusal, Reply
from sandboxes.workspace.manifest import Mode

_CODES = frozenset({p.FILE_NOT_FOUND, p.PERMISSION_DENIED, p.IS_DIRECTORY, p.INVALID_PATH, p.ALREADY_EXISTS})
_ERRNO = {
    p.FILE_NOT_FOUND: errno.ENOENT,
    p.PERMISSION_DENIED: errno.EACCES,
    p.IS_DIRECTORY: errno.EISDIR,
    p.INVALID_PATH: errno.EINVAL,
    p.ALREADY_EXISTS: errno.EEXIST,
    "no_space": errno.ENOSPC,
}
_MODES = frozenset(mode.encode() for mode in get_args(Mode))


def file_error(exc: Refusal) -> p.FileOperationError | str:
    """The code of a refusal where the protocol has one, else its message."""
    return cast("p.FileOperationError", exc.code) if exc.code in _CODES else exc.message


def os_error(exc: Refusal, path: str) -> OSError:
    """A refusal as the `OSError` that an operation on a file of this machine would have raised."""
    return OSError(_ERRNO.get(exc.code, errno.EIO), exc.message.removeprefix("Error: "), path)


def read_result(reply: Reply, path: str) -> p.ReadResult:
    """The answer to `read` of the file `path`."""
    encoding = reply.get("encoding", str)
    kind = mime_type(path, binary=encoding == "base64")
    data = p.FileData(content=reply.payload.decode("utf-8", "replace"), encoding=encoding, mime_type=kind)
    if (modified := reply.maybe("modified_at", str)) is not None:
        data["modified_at"] = modified
    try:
        return p.ReadResult(
            file_data=data,
            total_lines=reply.maybe("total_lines", int),
            start_line=reply.maybe("start_line", int),
            end_line=reply.maybe("end_line", int),
            next_offset=reply.maybe("next_offset", int),
            no_lines_requested=bool(reply.fields.get("no_lines_requested")),
            next_byte=reply.maybe("next_byte", int),
        )
    except ValueError as exc:
        raise ProtocolError(f"the sandbox's helper answered a read with nonsense: {exc}") from exc


def entries(reply: Reply, name: str) -> list[p.FileInfo]:
    """A list of `FileInfo`."""
    found: list[p.FileInfo] = []
    for item in reply.get(name, list):
        fields = Reply(_mapping(item))
        info = p.FileInfo(path=fields.get("path", str), is_dir=fields.get("is_dir", bool))
        if (size := fields.maybe("size", int)) is not None:
            info["size"] = size
        if (modified := fields.maybe("modified_at", str)) is not None:
            info["modified_at"] = modified
        found.append(info)
    return found


def grep_result(reply: Reply) -> p.GrepResult:
    """The answer to `grep`."""
    found: list[p.GrepMatch] = []
    for item in reply.get("matches", list):
        fields = Reply(_mapping(item))
        found.append(p.GrepMatch(path=fields.get("path", str), line=fields.get("line", int), text=fields.get("text", str)))
    return p.GrepResult(matches=found, truncated=reply.get("truncated", bool))


def glob_result(reply: Reply) -> p.GlobResult:
    """The answer to `glob`."""
    reason = reply.maybe("truncation_reason", str)
    known = cast("p.GlobTruncationReason | None", reason if reason in ("budget", "unreadable") else None)
    return p.GlobResult(
        matches=entries(reply, "matches"), truncated=reply.get("truncated", bool), truncation_reason=known
    )


def _mapping(item: object) -> Mapping[str, Any]:
    if not isinstance(item, dict):
        raise ProtocolError(f"the sandbox's helper sent {item!r:.80} in a list of objects")
    return item


def command_result(fields: Mapping[str, Any]) -> CommandResult:
    """How a command ended."""
    reply = Reply(fields)
    return CommandResult(reply.get("exit_code", int), reply.get("timed_out", bool), reply.get("lost", int))


def execute_response(reply: Reply) -> p.ExecuteResponse:
    """The answer to `run`: the output, or its head and tail around a note."""
    result = command_result(reply.fields)
    head, omitted = reply.get("head", int), reply.get("omitted", int)
    file = reply.get("file", str) if omitted else None
    parts = [reply.payload[:head].decode("utf-8", "replace")]
    if omitted:
        parts += [f"\n[... {omitted} bytes left out; the output is in {file} ...]\n"]
        parts += [reply.payload[head:].decode("utf-8", "replace")]
    return p.ExecuteResponse("".join(parts), result.exit_code, omitted > 0, result.timed_out, file)


def parse_manifest(records: bytes) -> list[FileEntry]:
    """NUL-terminated records of `mode size blob path`; a link's is followed by its target."""
    found = []
    parts = iter(records.split(b"\0")[:-1])
    for record in parts:
        fields = record.split(b" ", 3)
        if len(fields) != 4 or fields[0] not in _MODES or not fields[1].isdigit() or len(fields[2]) != 40:
            raise ProtocolError(f"the sandbox's helper sent a manifest with the record {record!r:.120}")
        mode = cast("Mode", fields[0].decode())
        target = next(parts, b"").decode("utf-8", "surrogateescape") if mode == "120000" else None
        path, blob = fields[3].decode("utf-8", "surrogateescape"), fields[2].decode("ascii", "replace")
        found.append(FileEntry(path, mode, int(fields[1][:20]), blob, target))
    return found


def parse_listings(listings: bytes) -> dict[str, frozenset[str]]:
    """The names in each folder: NUL-terminated, after the folder's path, and another NUL after the last."""
    found: dict[str, frozenset[str]] = {}
    at = 0
    while at < len(listings):
        end = listings.find(b"\0", at)
        last = listings.find(b"\0\0", end)
        if end < 0 or last < 0:
            raise ProtocolError("the sandbox's helper sent a listing without its end")
        names = _text(listings[end + 1 : last]).split("\0") if last > end else []
        found[_text(listings[at:end])] = frozenset(names)
        at = last + 2
    return found


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
