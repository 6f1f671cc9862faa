"""Copying what a run left into a folder of the person who ran it. The names come from a sandbox: none may lead out."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.errors import BadInput

if TYPE_CHECKING:
    from orchestrator.cli.summary import Kept


def prepare(folder: Path) -> Path:
    """Make the folder, before the run rather than after it. Raises `BadInput` when that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise BadInput(f"--out {folder}: the folder cannot be made: {exc.strerror}") from exc
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"--out {folder}: the folder cannot be written to")
    return folder.resolve()


def copied(kept: Sequence[Kept], folder: Path) -> list[Kept]:
    """Copy each artifact under its name into `folder`, over what is there; the copies.

    Raises `BadInput` when one cannot be written, `InfrastructureError` when its content is not to be had as it was left.
    """
    return [_copy_one(item, folder) for item in kept]


def _copy_one(item: Kept, folder: Path) -> Kept:
    target = folder.joinpath(*_parts(item.artifact.name))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.parent.resolve().is_relative_to(folder):
            raise BadInput(f"--out {folder}: {target.parent} is a link that leads out of it; remove it")
        _write(item, target)
    except OSError as exc:
        raise BadInput(f"--out {folder}: {target} cannot be written: {exc.strerror}") from exc
    return replace(item, place=target, content=lambda: target.open("rb"))


def _write(item: Kept, target: Path) -> None:
    # Under another name first: a link that lies at the target's place is replaced, never written through.
    with item.content() as content, tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        try:
            shutil.copyfileobj(content, file)
            umask = os.umask(0)
            os.umask(umask)
            Path(file.name).chmod(0o666 & ~umask)
            file.flush()
            Path(file.name).replace(target)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _parts(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
        raise BadInput(f"the artifact {name!r} has a name that leads out of a folder; it was not copied")
    return path.parts
