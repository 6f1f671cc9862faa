"""A workspace that many are compared with: what is where, by path and by folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import cached_property

from sandboxes.workspace.manifest import FileEntry


class Known(dict[str, FileEntry]):
    """Entries by path; not changed any more. Its folders are found out once, when they are first asked for."""

    @classmethod
    def of(cls, entries: Mapping[str, FileEntry]) -> Known:
        """The entries themselves, when they are this already."""
        return entries if isinstance(entries, cls) else cls(entries)

    def names(self, folder: str) -> Set[str]:
        """The names in a folder; the root is the empty path."""
        return self._folders.get(folder, frozenset())

    def at(self, path: str) -> Iterator[str]:
        """This path and those below it, as far as they are of entries."""
        pending = [path]
        while pending:
            path = pending.pop()
            if path in self:
                yield path
            pending.extend(f"{path}/{name}" for name in self.names(path))

    @cached_property
    def _folders(self) -> Mapping[str, Set[str]]:
        found: dict[str, set[str]] = {}
        for path in self:
            folder, _, name = path.rpartition("/")
            while folder not in found:
                found[folder] = {name}
                if not folder:
                    break
                folder, _, name = folder.rpartition("/")
            found[folder].add(name)
        return found
