"""What differs between a workspace and the state that it started from, and what is to be changed in one. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandboxes.workspace.known import Known
from sandboxes.workspace.manifest import EMPTY_FOLDER, FOLDER, FileEntry, check_manifest
from sandboxes.workspace.names import BadName, parents, shown, split, to_bytes

if TYPE_CHECKING:
    from sandboxes.workspace.tree import Node

    Side = Node | FileEntry | None

REFUSED_CAP: Final = 1000
"""Paths that are named at most when edits are refused."""
STAGING: Final = ".fanfold-apply-"
"""How the names of folders begin in which edits are prepared. They are in no manifest."""


@dataclass(frozen=True)
class Changed:
    """What is not as in a base. Sorted by the bytes of the paths."""

    entries: tuple[FileEntry, ...] = ()
    """What is new, or has another mode or content."""
    removed: tuple[str, ...] = ()
    """Paths of the base at which there is nothing any more, or a folder with something in it."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to be at a path instead of what is there: files, links (the blob is the target) and empty folders."""

    path: str
    """Relative, without a leading slash."""
    before: Side
    """What must be there, by mode and blob. None: nothing, or a folder that others of the edits leave empty or fill."""
    after: Side
    """None: nothing. Folders that become empty by this go, too."""


@dataclass(frozen=True)
class Applied:
    """What became of edits: all of them are done, or, when any was refused, none."""

    refused: tuple[str, ...] = ()
    """Paths at which there is neither what was there before nor what was to be there; at most `REFUSED_CAP` of them."""


def difference(
    base: Mapping[str, FileEntry], now: Iterable[FileEntry], *, folders: bool = False, closed: Collection[str] = ()
) -> Changed:
    """What is not as in `base`, by all that there is `now`.

    Empty folders are looked at only with `folders`. What is at a `closed` path or below is not changed, whatever is claimed.
    Raises `PatchRefused` for a claim that cannot be.
    """
    before = _comparable(base, folders, closed)
    found = _comparable(check_manifest(now), folders, closed)
    return _changed(before, found, before.keys() - found.keys())


def layer_difference(
    base: Mapping[str, FileEntry],
    written: Iterable[FileEntry],
    listings: Mapping[str, Set[str]],
    *,
    folders: bool = False,
    closed: Collection[str] = (),
) -> Changed:
    """What is not as in `base`, by what was `written` since, and the names that there are now in each folder written to.

    A folder that is in no listing is as it was, if it is still there. See `difference`; a base that many are compared with had
    better be `Known`.
    """
    before = Known.of(_comparable(base, folders, closed))
    empty = [FileEntry(path, FOLDER, 0, EMPTY_FOLDER) for path, names in listings.items() if path and not names]
    found = _comparable(check_manifest([*written, *empty]), folders, closed)
    return _changed(before, found, _gone(before, found, listings) - found.keys())


def _gone(before: Known, found: Mapping[str, FileEntry], listings: Mapping[str, Set[str]]) -> set[str]:
    """Paths of a base at which there is nothing any more, or a folder with something in it; it may name what was found, too.

    Only what is in a listed folder, or below something that was found, is looked at: a base is large, and changes are few.
    """
    gone = {folder for path in found for folder in parents(path)} | listings.keys()
    gone &= before.keys()
    for path in found:
        gone.update(before.at(path))
    for folder, names in listings.items():
        for name in before.names(folder) - names:
            gone.update(before.at(f"{folder}/{name}" if folder else name))
    return gone


def _comparable(
    entries: Mapping[str, FileEntry], folders: bool, closed: Collection[str]
) -> Mapping[str, FileEntry]:
    if closed:
        entries = {path: entry for path, entry in entries.items() if not _is_in(path, closed)}
    if folders:
        return entries
    return {path: entry for path, entry in entries.items() if entry.mode != FOLDER}


def _is_in(path: str, closed: Collection[str]) -> bool:
    return path in closed or any(folder in closed for folder in parents(path))


def _changed(before: Mapping[str, FileEntry], found: Mapping[str, FileEntry], removed: Iterable[str]) -> Changed:
    entries = [entry for path, entry in found.items() if not _same(before.get(path), entry)]
    entries.sort(key=lambda entry: to_bytes(entry.path))
    return Changed(tuple(entries), tuple(sorted(removed, key=to_bytes)))


def _same(before: FileEntry | None, now: FileEntry) -> bool:
    return before is not None and (before.mode, before.blob) == (now.mode, now.blob)


def check_edits(edits: Sequence[Edit]) -> list[Edit]:
    """Edits in order of their paths. Raises `ValueError` for such that make no sense, alone or together."""
    after: dict[str, FileEntry] = {}
    seen: set[str] = set()
    for edit in edits:
        try:
            first = split(edit.path)[0]
        except BadName as exc:
            raise ValueError(f"an edit of {shown(edit.path)}: the path {exc}") from exc
        if edit.path in seen or first.startswith(STAGING):
            raise ValueError(f"an edit of {shown(edit.path)}: the path is edited twice, or is one of ours")
        seen.add(edit.path)
        for node in (edit.before, edit.after):
            if node is not None and node.mode == "160000":
                raise ValueError(f"an edit of {shown(edit.path)}: a submodule is no file of a workspace")
        if edit.after is not None:
            after[edit.path] = FileEntry(edit.path, edit.after.mode, edit.after.size, edit.after.blob)  # type: ignore[arg-type]
    clash = next((folder for path in after for folder in parents(path) if folder in after), None)
    if clash is not None:
        raise ValueError(f"an edit of {shown(clash)}: something else is to be below it")
    return sorted(edits, key=lambda edit: to_bytes(edit.path))
