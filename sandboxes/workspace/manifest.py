"""What a sandbox says is in its workspace. It may lie: everything here treats it as a claim."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from sandboxes.errors import PatchRefused
from sandboxes.workspace.names import PATH_CAP, BadName, parents, shown, split, to_bytes

Mode = Literal["100644", "100755", "120000", "040000"]
"""As in a Git tree: file, executable, symbolic link, and a folder with nothing in it."""

LINK: Final = "120000"
FOLDER: Final = "040000"
EMPTY_FOLDER: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Stands for the content of an empty folder: Git's id of a tree without entries, which is no blob and in no store."""
ENTRIES_CAP: Final = 1_000_000
"""Entries of a manifest."""


@dataclass(frozen=True)
class FileEntry:
    """One path of a manifest. `path` is relative to the manifest's root, without a leading slash."""

    path: str
    mode: Mode
    size: int
    blob: str
    """Git's blob id (SHA-1, hex) of the content; of a link, of its target. Of an empty folder, `EMPTY_FOLDER`."""
    target: str | None = None
    """Of a symbolic link: where it points. A link that is new or changed cannot be patched without it."""


def check_manifest(entries: Iterable[FileEntry], exclude: Collection[str] = ()) -> dict[str, FileEntry]:
    """The entries by path, without those that have an excluded name in their path.

    Raises `PatchRefused` for a path that no workspace can hold (absolute, `..`, empty parts, twice, below a file or a folder
    that is said to be empty), an unknown mode, a size that is none, or more than `ENTRIES_CAP` entries.
    """
    checked: dict[str, FileEntry] = {}
    for count, entry in enumerate(entries):
        if count >= ENTRIES_CAP:
            raise PatchRefused(f"the workspace has more than {ENTRIES_CAP} files: remove some, or exclude their folder")
        try:
            parts = split(entry.path)
        except BadName as exc:
            raise PatchRefused(f"the sandbox reports a path that cannot be: {shown(entry.path)} {exc}") from exc
        if entry.path in checked:
            raise PatchRefused(f"the sandbox reports the path {shown(entry.path)} twice")
        empty = entry.mode != FOLDER or (entry.size, entry.blob) == (0, EMPTY_FOLDER)
        if entry.mode not in get_args(Mode) or entry.size < 0 or not empty:
            raise PatchRefused(f"the sandbox reports {shown(entry.path)} with mode {entry.mode!r} and size {entry.size!r}")
        if exclude and not set(exclude).isdisjoint(parts):
            continue
        checked[entry.path] = entry
    _refuse_files_as_folders(checked)
    return checked


def link_target(entry: FileEntry) -> bytes:
    """Where a symbolic link of a manifest points. Raises `PatchRefused` when it does not say, or no link can point there."""
    if entry.target is None:
        raise PatchRefused(f"the sandbox does not say where the link {shown(entry.path)} points")
    try:
        target = to_bytes(entry.target)
    except BadName as exc:
        raise PatchRefused(f"the target of the link {shown(entry.path)} {exc}") from exc
    if not 0 < len(target) <= PATH_CAP or b"\0" in target:
        raise PatchRefused(f"the target of the link {shown(entry.path)} is empty, too long, or has a NUL byte")
    return target


def _refuse_files_as_folders(checked: Collection[str]) -> None:
    known_folders: set[str] = set()
    for path in checked:
        for folder in parents(path):
            if folder in known_folders:
                break
            if folder in checked:
                raise PatchRefused(
                    f"the sandbox reports {shown(folder)}, which is no folder or an empty one, and {shown(path)} below it"
                )
            known_folders.add(folder)
