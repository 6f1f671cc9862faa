"""What a run needs of this machine, packed: the server never sees a path, a variable or a file that is not meant for it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.client.orders import task_of
from orchestrator.freeze import freeze_files, secrets_to_send
from orchestrator.modelfiles import check_sendable
from orchestrator.runs.files import RunFolder
from orchestrator.spec import RunSpec


@dataclass(frozen=True)
class Parcel:
    """What is sent for one run."""

    task: RunSpec
    """The task, without what was packed."""
    files: Mapping[str, Path]
    """What is to be uploaded (`inputs`, `model`); it is there as long as the parcel is open."""
    secrets: Mapping[str, str] = field(repr=False)
    """Values by variable."""


@contextmanager
def packed(
    task: RunSpec | Mapping[str, Any],
    *,
    base_dir: Path | None = None,
    granted: Collection[str] = (),
    environ: Mapping[str, str] | None = None,
    named: Collection[str] = (),
) -> Iterator[Parcel]:
    """Pack a task; see `Service.submit` for the arguments. Raises `BadInput` when something is missing or not granted."""
    spec = task_of(task)
    check_sendable(spec)
    secrets = secrets_to_send(spec, granted, os.environ if environ is None else environ)
    with tempfile.TemporaryDirectory(prefix="fanfold-submit-") as scratch:
        folder = RunFolder(Path(scratch) / "run")
        folder.create()
        freeze_files(spec, folder, base_dir=base_dir or Path.cwd(), named=named)
        files = {"inputs": folder.input_tar, "model": folder.model_file}
        there = {name: path for name, path in files.items() if path.exists()}
        yield Parcel(spec.model_copy(update={"inputs": None}), there, secrets)
