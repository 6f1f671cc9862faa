"""Which paths may be in a workspace. They come from strangers: archives, task files, sandboxes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PATH_CAP: Final = 4096
"""Bytes of a path, as Linux's PATH_MAX."""
NAME_CAP: Final = 255
"""Bytes of one component of a path, as Linux's NAME_MAX."""
DEPTH_CAP: Final = 256
"""Components of a path: code that goes down a tree must not run out of stack."""

_IGNORED_BY_HFS: Final = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
"""Characters that macOS ignores in a name: with one in it, a name still means `.git` there."""


class BadName(ValueError):
    """A path that no workspace holds. The message is a reason, to follow the path in a sentence."""


def to_bytes(path: str) -> bytes:
    """The bytes of a path. Raises `BadName` when it has lone surrogates that stand for no byte."""
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise BadName("has characters that no file name can have") from exc


def to_text(path: bytes) -> str:
    """The inverse of `to_bytes`."""
    return path.decode("utf-8", "surrogateescape")


def split(path: str) -> list[str]:
    """The components of a relative path. Raises `BadName` for an absolute one, `.`, `..`, empty parts, NUL, and excess."""
    if path.startswith("/"):
        raise BadName("is absolute")
    if "\0" in path:
        raise BadName("has a NUL byte")
    parts = path.split("/")
    if ".." in parts:
        raise BadName("has a '..' in it")
    if "" in parts or "." in parts:
        raise BadName("is empty or has an empty or '.' part")
    raw = to_bytes(path)
    if len(raw) > PATH_CAP or (len(raw) > NAME_CAP and max(map(len, raw.split(b"/"))) > NAME_CAP):
        raise BadName(f"is longer than {PATH_CAP} bytes, or a part of it longer than {NAME_CAP}")
    if len(parts) > DEPTH_CAP:
        raise BadName(f"is deeper than {DEPTH_CAP} folders")
    return parts


def parents(path: str) -> Iterable[str]:
    """The folders above a path, the nearest first."""
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)


def is_dot_git(name: str) -> bool:
    """Whether a component means `.git` to Git on some file system: case, trailing dots and streams, short names."""
    plain = name.translate(_IGNORED_BY_HFS).lower().partition(":")[0].rstrip(" .")
    return plain in (".git", "git~1")


def shown(path: str | bytes) -> str:
    """A path for a message: quoted, on one line, never longer than a line should be."""
    text = to_text(path) if isinstance(path, bytes) else path
    quoted = ascii(text) if not text.isprintable() else f"'{text}'"
    return quoted if len(quoted) <= 200 else quoted[:200] + "...'"
