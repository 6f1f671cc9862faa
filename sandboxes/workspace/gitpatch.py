"""One change of a path in the form of `git diff --binary --full-index --no-renames`, which `git apply` takes.

libgit2 finds the hunks and the binary deltas. The headers are written here: libgit2's do not survive every name that a file
may have (spaces at the end, tabs, newlines, bytes that are not UTF-8).
"""

from __future__ import annotations

import base64
import re
import zlib
from dataclasses import dataclass
from typing import Final

import pygit2
from pygit2.enums import DiffOption

from sandboxes.workspace.manifest import LINK
from sandboxes.workspace.names import to_bytes

_NONE: Final = "0" * 40
_BODY: Final = re.compile(rb"^(?:@@ |GIT binary patch\n)", re.MULTILINE)
_QUOTED: Final = re.compile(rb'[\x00-\x1f\x7f-\xff"\\]')
_ESCAPES: Final = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}
_ROW: Final = 52
"""Bytes in a line of a binary patch."""


@dataclass(frozen=True, slots=True)
class Side:
    """What is at a path before or after a change."""

    mode: str
    blob: str
    content: bytes | None
    """None: too large to be shown. Only the side before may be; the patch then cannot be applied in reverse."""


def render(path: str, old: Side | None, new: Side | None) -> bytes:
    """The patch of one path. None stands for "nothing there". A change between file and link is two patches, as in Git."""
    assert old is not None or new is not None
    if old is not None and new is not None and (old.mode == LINK) != (new.mode == LINK):
        return render(path, old, None) + render(path, None, new)
    name = to_bytes(path)
    before, after = quote(b"a/" + name), quote(b"b/" + name)
    lines = [b"diff --git " + before + b" " + after, *_modes(old, new)]
    old_blob, new_blob = (side.blob if side else _NONE for side in (old, new))
    if old_blob == new_blob:
        return b"\n".join(lines) + b"\n"
    same_mode = f" {old.mode}" if old and new and old.mode == new.mode else ""
    lines.append(f"index {old_blob}..{new_blob}{same_mode}".encode())
    body = _body(old, new)
    if body.startswith(b"@@"):
        lines.append(b"--- " + (_with_tab(before) if old else b"/dev/null"))
        lines.append(b"+++ " + (_with_tab(after) if new else b"/dev/null"))
    return b"\n".join(lines) + b"\n" + body


def quote(name: bytes) -> bytes:
    """A name as Git writes it: as it is, or in quotes with C escapes when it has bytes that a line cannot carry.

    Git does not quote a folder whose name ends in a space, and then cannot read its own header: here it is quoted.
    """
    if not _QUOTED.search(name) and b" /" not in name:
        return name
    return b'"' + _QUOTED.sub(lambda found: b"\\" + (_ESCAPES.get(found[0][0]) or b"%03o" % found[0][0]), name) + b'"'


def _with_tab(name: bytes) -> bytes:
    """A name on a `---` or `+++` line: with a space in it, a tab ends it, or readers would take a date for its end."""
    return name + b"\t" if b" " in name and not name.startswith(b'"') else name


def _modes(old: Side | None, new: Side | None) -> list[bytes]:
    if old is None:
        return [f"new file mode {new.mode}".encode()] if new else []
    if new is None:
        return [f"deleted file mode {old.mode}".encode()]
    if old.mode == new.mode:
        return []
    return [f"old mode {old.mode}".encode(), f"new mode {new.mode}".encode()]


def _body(old: Side | None, new: Side | None) -> bytes:
    if old is not None and old.content is None:
        return b"GIT binary patch\n" + _literal((new.content if new else None) or b"")
    before, after = old.content if old else None, new.content if new else None
    data = pygit2.Patch.create_from(before, after, flag=DiffOption.SHOW_BINARY).data
    start = _BODY.search(data)
    return data[start.start() :] if start else b""


def _literal(content: bytes) -> bytes:
    """A binary hunk that says the whole content: its length, and lines of base 85 of it, compressed."""
    packed = zlib.compress(content)
    rows = [f"literal {len(content)}".encode()]
    for at in range(0, len(packed), _ROW):
        row = packed[at : at + _ROW]
        length = chr(len(row) + (64 if len(row) <= 26 else 70))
        rows.append(length.encode() + base64.b85encode(row, pad=True))
    return b"\n".join(rows) + b"\n\n"
