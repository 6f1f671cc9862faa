"""The frozen inputs as they enter a sandbox in which permissions close some places.

A place is closed before anything runs, and so before the inputs could be unpacked into it. What belongs there is laid over it
from this machine, read-only; what must not be read does not enter the sandbox at all.
"""

from __future__ import annotations

import posixpath
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import BadInput
from orchestrator.permissions import below
from orchestrator.spec import RunSpec
from sandboxes.providers.base import Mount


@dataclass(frozen=True)
class Inputs:
    """What a sandbox is made and filled with."""

    tar: Path
    """What is unpacked in the working directory; it need not exist."""
    mounts: tuple[Mount, ...] = ()


def placed_inputs(spec: RunSpec, tar: Path, folder: Path) -> Inputs:
    """The inputs in `tar` for the sandbox of `spec`; what is laid over its places is in `folder`, as long as the sandbox lives.

    `folder` is empty, and nobody else's. Raises `BadInput` for a link where a place is to be closed.
    """
    workdir, mounts = spec.sandbox.workdir, spec.closed
    inside = {posixpath.relpath(mount.target, workdir): mount for mount in mounts if below(mount.target, workdir)}
    if not inside:
        return Inputs(tar, mounts)
    folder.chmod(0o711)  # another user's sandbox passes through; its name is the secret
    places = {path: folder / str(number) for number, path in enumerate(inside)}
    rest = folder / "input.tar"
    if tar.exists():
        _divide(tar, rest, places, {path for path, mount in inside.items() if mount.mode == "hidden"})
    for place in places.values():
        if not place.exists():
            place.mkdir(mode=0o755)
    sources = {inside[path].target: str(place) for path, place in places.items()}
    return Inputs(rest, tuple(_sourced(mount, sources) for mount in mounts))


def _sourced(mount: Mount, sources: Mapping[str, str]) -> Mount:
    source = sources.get(mount.target)
    return mount if source is None else Mount(target=mount.target, source=source)


def _divide(tar: Path, rest: Path, places: Mapping[str, Path], hidden: set[str]) -> None:
    """Put what belongs to a place there (nothing, when it is hidden), and all else into the archive `rest`."""
    options = {"encoding": "utf-8", "errors": "surrogateescape"}
    with tarfile.open(tar, "r:", **options) as archive, tarfile.open(rest, "x:", **options) as others:  # type: ignore[call-overload]
        for member in archive:
            path = posixpath.normpath(member.name)
            closed = next((one for one in places if below(path, one)), None)
            if closed is None:
                others.addfile(member, archive.extractfile(member) if member.isreg() else None)
            else:
                _place(archive, member, posixpath.relpath(path, closed), places[closed], empty=closed in hidden)


def _place(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, place: Path, *, empty: bool) -> None:
    target = place if path == "." else place / path
    if member.issym() and path == ".":
        raise BadInput(f"permissions close '{member.name}', which is a link: name what it leads to")
    if empty and path != ".":
        return
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not target.parent.resolve().is_relative_to(place.parent.resolve()):
        raise BadInput(f"the inputs have '{member.name}' behind a link: they were not frozen by Fanfold")
    if member.isdir():
        target.mkdir(mode=0o755, exist_ok=True)
    elif member.issym():
        target.symlink_to(member.linkname)
    elif member.isreg():
        with target.open("xb") as file:
            content = archive.extractfile(member)
            if content is not None and not empty:
                shutil.copyfileobj(content, file)
        target.chmod(0o755 if member.mode & 0o100 else 0o644)
