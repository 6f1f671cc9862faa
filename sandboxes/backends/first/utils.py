"""The helpers that backends of the protocol's first version were written with, over the functions that all backends share.

`files` are those of agent state or of a shared dict: path to `FileData`, of either format.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from sandboxes import protocol as p
from sandboxes.backends.first import numbered
from sandboxes.backends.keyed import filedata, searching
from sandboxes.backends.keyed.entries import Direct, PathLocks
from sandboxes.backends.keyed.memory import MemoryFiles
from sandboxes.backends.layered.places import place, within
from sandboxes.portal import finished
from sandboxes.protocol import FileData, FileInfo, GrepMatch
from sandboxes.toolbox.helper import text

__all__ = [
    "FileInfo",
    "GrepMatch",
    "format_content_with_line_numbers",
    "format_read_response",
    "glob_search_files",
    "grep_matches_from_files",
    "normalize_path",
    "perform_string_replacement",
    "validate_path",
]


def normalize_path(path: str) -> str:
    """`path` absolute and normalized; a relative one begins at `/`. Raises `ValueError` for `..`, NUL or nothing."""
    try:
        absolute: str = text.absolute(path, "/")
    except text.Refused as exc:
        raise ValueError(exc.message.removeprefix("Error: ")) from exc
    return absolute


def validate_path(path: str, *, allowed_prefixes: Sequence[str] | None = None) -> str:
    """Like `normalize_path`; also raises `ValueError` for `~`, for a drive's letter, and outside of `allowed_prefixes`."""
    if path.startswith("~") or (path[1:2] == ":" and path[:1].isalpha()):
        raise ValueError(f"{path!r} is not a path in here: it must begin with '/'")
    absolute = normalize_path(path)
    if allowed_prefixes and not any(within(absolute, place(prefix, "prefix")) for prefix in allowed_prefixes):
        raise ValueError(f"{absolute!r} is outside of {', '.join(allowed_prefixes)}")
    return absolute


def format_content_with_line_numbers(content: str | Sequence[str], start_line: int = 1) -> str:
    """Text (or its lines) in the manner of `cat -n`; a very long line goes on in lines numbered `7.1`, `7.2`, ..."""
    lines = content.split("\n") if isinstance(content, str) else list(content)
    return numbered.number(lines, start_line)


def format_read_response(file_data: FileData, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT) -> str:
    """What a first-version `read` answers: numbered lines, a reminder for an empty file, or `Error: ...`."""
    try:
        content = filedata.content_of("file", file_data)
        if not content:
            return numbered.EMPTY
        window = filedata.window("file", file_data, offset, limit)
    except text.Refused as exc:
        return str(exc.message)
    if not isinstance(window.content, str):
        return "Error: the file is not text"
    if window.no_lines_requested:
        return ""
    return numbered.number(window.content.removesuffix("\n").split("\n"), offset + 1)


def perform_string_replacement(
    content: str, old_string: str, new_string: str, replace_all: bool = False
) -> tuple[str, int] | str:
    """The new content and how often `old_string` was replaced, or what is wrong."""
    try:
        changed, count = text.replace(content, old_string, new_string, replace_all, "the file")
    except text.Refused as exc:
        return str(exc.message)
    return changed, count


def glob_search_files(files: Mapping[str, FileData], pattern: str, path: str = "/") -> dict[str, FileData]:
    """Those of `files` below `path` that match, in order; none when there is no such folder. A bad pattern: `ValueError`."""
    try:
        matches = text.glob_matcher(pattern)
    except text.Refused as exc:
        raise ValueError(exc.message.removeprefix("Error: ")) from exc
    root = normalize_path(path).rstrip("/")
    below = {one: kept for one, kept in files.items() if one.startswith(root + "/")}
    return {one: below[one] for one in sorted(below) if matches(one[len(root) + 1 :])}


def grep_matches_from_files(
    files: Mapping[str, FileData], pattern: str, path: str | None = None, glob: str | None = None
) -> list[GrepMatch] | str:
    """The lines of `files` that contain `pattern` literally, in order of path and line, or what is wrong."""
    kept = Direct(MemoryFiles(files, lambda update: None, "v2"), PathLocks(threading.Lock))
    answer = finished(searching.grep(kept, pattern, path, glob))
    return answer.error if answer.error is not None else answer.matches or []
