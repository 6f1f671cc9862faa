"""Three texts into one, by libgit2, which does it as Git does.

pygit2's own form of this call knows no labels, no favour and no bytes that are not UTF-8, so libgit2's is called. It takes
contents out of an object store only: here that is a store in memory, so that nothing is written for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import pygit2
from pygit2.enums import MergeFavor, MergeFileFlag, ObjectType
from pygit2.ffi import C, ffi

from sandboxes.workspace.names import to_bytes

TEXT_CAP: Final = 64 * 1024**2
"""Bytes of a file that is merged as text."""
_BINARY_WITHIN: Final = 8000
"""Bytes of a file in which Git looks for a NUL."""
_MARKER: Final = 7
_OPTIONS_VERSION: Final = 1
_FILE: Final = 0o100644

Favour = Literal["ours", "theirs", "union"]
_FAVOURS: Final[dict[Favour, MergeFavor]] = {
    "ours": MergeFavor.OURS,
    "theirs": MergeFavor.THEIRS,
    "union": MergeFavor.UNION,
}


@dataclass(frozen=True, slots=True)
class Labels:
    """How conflict markers name the three sides. `depth` makes them longer, for a text that has markers already."""

    base: str
    ours: str
    theirs: str
    depth: int = 0


def is_text(content: bytes) -> bool:
    """Whether Git would merge a file by its lines."""
    return len(content) <= TEXT_CAP and b"\0" not in content[:_BINARY_WITHIN]


class Texts:
    """Merges texts. One thread at a time."""

    def __init__(self) -> None:
        self._memory = _Memory()
        store = pygit2.Odb()
        store.add_backend(self._memory, 1)
        self._repository = pygit2.Repository()
        self._repository.set_odb(store)

    def merge(self, base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
        """The text with the changes of both sides, or None when they conflict. Without a base all that differs conflicts."""
        clean, text = self._merge(base, ours, theirs, Labels("", "", ""), MergeFavor.NORMAL, MergeFileFlag.DEFAULT)
        return text if clean else None

    def favour(self, side: Favour, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
        """The same, with the lines of one side (or of both) where they conflict."""
        return self._merge(base, ours, theirs, Labels("", "", ""), _FAVOURS[side], MergeFileFlag.DEFAULT)[1]

    def mark(self, base: bytes | None, ours: bytes, theirs: bytes, labels: Labels) -> bytes:
        """The same, with all three sides between markers where they conflict."""
        return self._merge(base, ours, theirs, labels, MergeFavor.NORMAL, MergeFileFlag.STYLE_DIFF3)[1]

    def _merge(
        self, base: bytes | None, ours: bytes, theirs: bytes, labels: Labels, favour: MergeFavor, flags: MergeFileFlag
    ) -> tuple[bool, bytes]:
        self._memory.contents.clear()
        names = [ffi.new("char[]", _label(name)) for name in (labels.base, labels.ours, labels.theirs)]
        options = ffi.new("git_merge_file_options *")
        options.version = _OPTIONS_VERSION
        options.ancestor_label, options.our_label, options.their_label = names
        options.favor, options.flags = int(favour), int(flags)
        options.marker_size = _MARKER + 2 * labels.depth
        path = ffi.new("char[]", b"text")
        entries = [ffi.NULL if content is None else self._entry(content, path) for content in (base, ours, theirs)]
        result = ffi.new("git_merge_file_result *")
        pygit2.errors.check_error(C.git_merge_file_from_index(result, self._repository._repo, *entries, options))
        try:
            return bool(result.automergeable), bytes(ffi.buffer(result.ptr, result.len)) if result.len else b""
        finally:
            C.git_merge_file_result_free(result)

    def _entry(self, content: bytes, path: Any) -> Any:
        """An index entry of libgit2's for a content. `path` must live as long as it."""
        entry = ffi.new("git_index_entry *")
        entry.mode, entry.path = _FILE, path
        ffi.buffer(ffi.addressof(entry, "id"))[:] = self._memory.keep(content)
        return entry


class _Memory(pygit2.OdbBackend):
    """The contents of one call, by id."""

    def __init__(self) -> None:
        super().__init__()
        self.contents: dict[bytes, bytes] = {}

    def keep(self, content: bytes) -> bytes:
        raw = bytes(pygit2.hash(content).raw)
        self.contents[raw] = content
        return raw

    def read_cb(self, oid: pygit2.Oid) -> tuple[int, bytes]:
        """libgit2 asks for a content."""
        return ObjectType.BLOB, self.contents[oid.raw]

    def exists_cb(self, oid: pygit2.Oid) -> bool:
        """libgit2 asks whether there is one."""
        return oid.raw in self.contents


def _label(name: str) -> bytes:
    """A name as it can stand behind a marker: on one line, not long."""
    return to_bytes("".join(char if char.isprintable() else "?" for char in name)[:200])
