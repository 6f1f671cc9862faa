"""Who stands on whose files: the folders of sandboxes and snapshots as layers of others.

Each folder below the sandboxes' own has what it wrote (`upper`, and for a writable system `system/...`) and the names of those
below it, the lowest first (`layers.json`). A record (`handle.json`, `snapshot.json`) says that it is there. One that was
destroyed has a husk instead (`husk.json`), and its folder stays while a record names it: nothing is counted, so that whoever is
killed leaves no wrong count. Who is there and who is named changes under one lock, of all processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from sandboxes.errors import SandboxNotFound
from sandboxes.providers.local.removal import remove_tree

RECORDS = ("handle.json", "snapshot.json")
HUSK = "husk.json"
_LAYERS = "layers.json"
_NEW, _OLD = ".new-", ".old-"
"""Before the names of folders that do not have their record yet, or no more."""
_KEPT = ("upper", "system")
"""What a husk keeps for those that stand on it."""


@dataclass(frozen=True)
class Below:
    """Names of the folders that a sandbox stands on, the lowest first."""

    workspace: tuple[str, ...] = ()
    system: tuple[str, ...] = ()

    def with_top(self, name: str, *, system: bool) -> Below:
        """What stands on `name`, which stands on this; its system too, or not."""
        return Below((*self.workspace, name), (*self.system, name) if system else ())


class Layers:
    """The layers below one folder."""

    def __init__(self, top: Path) -> None:
        self._top = top

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock. The folder is its own lock; it may be removed by others, and is made again."""
        descriptor = self._opened()
        try:
            yield
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        while True:
            self._top.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._top, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), self._top.stat()):
                    return descriptor
            os.close(descriptor)

    def add(self, name: str, record: str, content: str, below: Below, origin: str | None = None) -> None:
        """Make the folder of something new, with the lock held. It stands on `below` because of `origin`.

        Raises `SandboxNotFound` when `origin` was destroyed, or is not whole: what it stands on may be gone, too.
        """
        if origin is not None:
            under = self._top / origin
            if not (under / "upper").is_dir() or not any((under / one).exists() for one in RECORDS):
                raise SandboxNotFound(f"{origin} was destroyed, or is not whole")
        fresh = self._top / f"{_NEW}{name}"  # `find` knows something half-made by its record: it appears with that
        fresh.mkdir()
        (fresh / record).write_text(content)
        if below.workspace:
            (fresh / _LAYERS).write_text(json.dumps(asdict(below)))
        fresh.rename(self._top / name)

    def below(self, name: str) -> Below:
        """What a sandbox or snapshot stands on."""
        try:
            told = json.loads((self._top / name / _LAYERS).read_text())
        except (OSError, ValueError):
            return Below()
        return Below(tuple(told["workspace"]), tuple(told["system"]))

    def standing_on(self, name: str) -> list[str]:
        """Names of the sandboxes and snapshots that need the files of this one."""
        return sorted(one for one, below in self._recorded().items() if name in (*below.workspace, *below.system))

    def _recorded(self) -> dict[str, Below]:
        found = [path.parent for path in self._top.glob(f"*/{_LAYERS}")]
        return {one.name: self.below(one.name) for one in found if any((one / record).exists() for record in RECORDS)}

    def unneeded(self) -> list[Path]:
        """Folders of husks that nobody stands on."""
        husks = list(self._top.glob(f"*/{HUSK}"))
        needed = {one for below in self._recorded().values() for one in (*below.workspace, *below.system)} if husks else set()
        return [husk.parent for husk in husks if husk.parent.name not in needed]

    def retire(self, name: str) -> None:
        """Remove something whose processes are dead, and every layer that nobody stands on any more."""
        with self.locked():
            for record in RECORDS:
                with contextlib.suppress(FileNotFoundError):
                    (self._top / name / record).rename(self._top / name / HUSK)
            unneeded = self.unneeded()
            if not (self._top / name / HUSK).exists():
                unneeded.append(self._top / name)  # somebody took its record away: nobody can have come to stand on it
            broken_off = [*self._top.glob(f"{_NEW}*"), *self._top.glob(f"{_OLD}*")]  # by those who were killed
        # Only what stands on a layer can give it to others: nobody comes to need these again.
        for folder in unneeded:
            _strip(folder, ())
            old = folder.with_name(f"{_OLD}{folder.name}")
            with contextlib.suppress(FileNotFoundError):  # somebody else was faster
                folder.rename(old)
            broken_off.append(old)
        for folder in broken_off:
            remove_tree(folder)
        _strip(self._top / name, _KEPT)
        with contextlib.suppress(OSError):
            self._top.rmdir()  # only when it is empty


def _strip(folder: Path, kept: tuple[str, ...]) -> None:
    """Remove the folders in a folder, if it is there. Its husk goes last: until then it can be found."""
    with contextlib.suppress(FileNotFoundError):  # somebody else is removing it, too
        for inner in list(folder.iterdir()):
            if inner.name not in kept and inner.is_dir() and not inner.is_symlink():
                remove_tree(inner)
