"""What a merge left to decide, as files that a person or an agent can open.

Names and contents are strangers': a name that cannot be shown is escaped, and everything is capped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from sandboxes.workspace.manifest import LINK
from sandboxes.workspace.merge.report import printable
from sandboxes.workspace.merge.summary import listed
from sandboxes.workspace.merge.text import is_text
from sandboxes.workspace.merge.values import At, Conflict, Contents, MergeResult
from sandboxes.workspace.merge.verified import LeftOut
from sandboxes.workspace.names import parents, shown, to_bytes
from sandboxes.workspace.tree import SUBMODULE

BYTES: Final = 16 * 1024**2
"""Bytes of all files of one child, but for the README."""
FILES: Final = 1000
"""Files of one child."""
TEXT_CAP: Final = 256 * 1024
"""Bytes of a text that is shown."""
LISTED: Final = 200
"""Conflicts that a README lists."""

README: Final = "README.md"
OUTPUT: Final = "output.txt"

_SUFFIXES: Final = ("base", "ours", "theirs", "marked")
_PART: Final = 200
"""Bytes of a component of a path, so that there is room for a number and a suffix."""
_PATH: Final = 1000
"""Bytes of a path, so that there is room for the place of all files."""


def conflict_files(
    result: MergeResult, left_out: Sequence[LeftOut] = (), *, cap_bytes: int = BYTES, cap_files: int = FILES
) -> dict[str, dict[str, bytes]]:
    """For each child whose changes were not merged because of a conflict, or of a check that failed: its files, by path.

    A conflict that nothing settled belongs to the child that met it, the last of its `children`. Of each there are up to four
    texts, `<path>.base`, `.ours`, `.theirs` and `.marked`; of what is no text, or too long, a line says what it is. `README.md`
    lists all of them, `output.txt` is what the check said. What does not fit into the caps is only listed.
    """
    folders: dict[str, _Folder] = {}
    for conflict in result.conflicts:
        if not conflict.settled:
            folder = folders.setdefault(conflict.children[-1], _Folder(result, cap_bytes, cap_files))
            folder.add(conflict, result.contents)
    for one in left_out:
        if one.reason != "undecided":
            folder = folders.setdefault(one.name, _Folder(result, cap_bytes, cap_files))
            folder.leave_out(one)
    return {name: folder.files(name) for name, folder in folders.items()}


class _Folder:
    """The files of one child while they are collected."""

    def __init__(self, result: MergeResult, cap_bytes: int, cap_files: int) -> None:
        self._result, self._bytes, self._count = result, cap_bytes, cap_files - 1  # one is the README
        self._files: dict[str, bytes] = {}
        self._folders: set[str] = set()
        self._why: list[str] = []
        self._rows: list[str] = []
        self._more = 0

    def leave_out(self, one: LeftOut) -> None:
        """Say why nothing of a child was merged."""
        self._why.append(f"Nothing of it was merged: {one.why}.")
        if one.reason == "check":
            output = to_bytes("\n".join(printable(one.output[-TEXT_CAP:])) + "\n")
            self._why.append(f"What the check said is in `{OUTPUT}`." if self._put({OUTPUT: output}) else "It said too much.")
        for conflict in one.conflicts:
            self.add(conflict, one.contents)

    def add(self, conflict: Conflict, contents: Contents) -> None:
        """List a conflict, with its sides."""
        if len(self._rows) >= LISTED:
            self._more += 1
            return
        sides = {"base": conflict.base, "ours": conflict.ours, "theirs": conflict.theirs}
        texts = {side: _side(at, contents) for side, at in sides.items() if at is not None}
        if conflict.marked is not None:
            texts["marked"] = _text(conflict.marked, None, contents)
        stem = self._stem(conflict.path)
        fits = self._put({f"{stem}.{suffix}": text for suffix, text in texts.items()})
        self._rows.append("\n".join(self._row(conflict, sides, stem if fits else None)))

    def files(self, name: str) -> dict[str, bytes]:
        """All files, and the README that lists them."""
        more = [f"... and {self._more} more."] if self._more else []
        page = [f"# What {_code(shown(name))} changed and is not merged", *self._why, *self._rows, *more]
        return {README: to_bytes("\n\n".join(page) + "\n"), **self._files}

    def _row(self, conflict: Conflict, sides: dict[str, At | None], stem: str | None) -> Iterator[str]:
        yield f"## {_code(shown(conflict.path))}"
        yield ""
        between = listed(_code(shown(child)) for child in conflict.children)
        yield f"{conflict.kind}, between {between}. The result has {self._holds(conflict)}."
        yield ""
        for side, at in sides.items():
            what = "nothing" if at is None else f"{_code(shown(at.path))}, mode {at.node.mode}"
            yield f"- {side}: {what}" + (f", in {_code(f'{stem}.{side}')}" if stem and at is not None else "")
        if stem and conflict.marked is not None:
            yield f"- with conflict markers: {_code(f'{stem}.marked')}"
        if stem is None:
            yield "- The contents are too many, or too long, to be shown here."
        if conflict.command is not None:
            yield f"- It is to be made anew by {_code(shown(conflict.command))}."

    def _holds(self, conflict: Conflict) -> str:
        """What is at the path of a conflict now."""
        node = self._result.tree.entries.get(conflict.path)
        if node is None:
            return "nothing there"
        if node.blob == conflict.marked:
            return "the text with conflict markers"
        known = {"ours": conflict.ours, "theirs": conflict.theirs, "base": conflict.base}
        return next((side for side, at in known.items() if at is not None and at.node == node), "what came of both")

    def _put(self, files: dict[str, bytes]) -> bool:
        """Add files, or none of them when they are too many or too long."""
        size = sum(map(len, files.values()))
        if size > self._bytes or len(files) > self._count:
            return False
        self._bytes, self._count = self._bytes - size, self._count - len(files)
        self._files.update(files)
        self._folders.update(folder for name in files for folder in parents(name))
        return True

    def _stem(self, path: str) -> str:
        """Where the sides of a path lie: there, or in the top folder with a number, when something else is in the way."""
        stem = _safe(path)
        flat = _cut(stem.replace("/", "%2F"))
        numbers = count(2)
        while not self._is_free(stem):
            stem = f"{flat}~{next(numbers)}"
        return stem

    def _is_free(self, stem: str) -> bool:
        taken = self._files.keys() | {README, OUTPUT}
        names = [f"{stem}.{suffix}" for suffix in _SUFFIXES]
        return taken.isdisjoint([*names, *parents(stem)]) and self._folders.isdisjoint(names)


def _side(at: At, contents: Contents) -> bytes:
    if at.node.mode == SUBMODULE:
        return f"a submodule, at commit {at.node.blob}\n".encode()
    if at.node.mode == LINK:
        return f"a link to {shown(contents.get(at.node.blob))}\n".encode()
    return _text(at.node.blob, at.node.size, contents)


def _text(blob: str, size: int | None, contents: Contents) -> bytes:
    """A text, or a line that says what is not shown."""
    if size is not None and size > TEXT_CAP:
        return f"too long to be shown: {size} bytes, blob {blob}\n".encode()
    content = contents.get(blob)
    if len(content) > TEXT_CAP:
        return f"too long to be shown: {len(content)} bytes, blob {blob}\n".encode()
    return content if is_text(content) else f"no text: {len(content)} bytes, blob {blob}\n".encode()


def _safe(path: str) -> str:
    """A path that can be shown and be made anywhere: what cannot be shown is escaped as in a URL."""
    parts = [_cut("".join(char if char.isprintable() else _escaped(char) for char in part)) for part in path.split("/")]
    safe = "/".join(parts)
    return safe if len(to_bytes(safe)) <= _PATH else parts[-1]


def _escaped(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in to_bytes(char))


def _cut(text: str) -> str:
    """The last bytes of a name, which tell more than its first."""
    return text.encode()[-_PART:].decode("utf-8", "ignore")


def _code(text: str) -> str:
    """Text as Markdown that means nothing but itself."""
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"`{text}`"
