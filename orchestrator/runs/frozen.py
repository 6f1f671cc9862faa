"""What was frozen for runs, where several machines execute them: in the place of the artifacts, by its hash.

The record has it among the run's artifacts under reserved names, which no listing shows, so that what keeps and removes
artifacts does so with it. Where the artifacts are in the home (the default) nothing is copied: the run's folder is where its
worker looks.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, delete, insert

from orchestrator.errors import InfrastructureError
from orchestrator.runs import tables as t
from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.content import PIECE
from orchestrator.runs.files import FROZEN_FILES, RESERVED, SECRETS_FILE, RunFolder
from orchestrator.runs.models import Artifact, NewRun
from orchestrator.runs.reading import Reader

SWEEP_AFTER = 86400.0
"""Seconds without a change after which the folder of a run that has ended is of nobody any more."""
SWEPT_AT_ONCE = 500
"""Runs that one question to the record asks for."""


class FrozenFiles:
    """Takes what was frozen to where every worker finds it, and fetches it from there."""

    def __init__(self, record: Reader, artifacts: ArtifactStore, *, shared: bool) -> None:
        """`shared` says that the artifacts have a place that other machines see, too."""
        self._record = record
        self._artifacts = artifacts
        self._shared = shared
        self._checked = False

    def send(self, run_id: str, folder: RunFolder) -> tuple[Artifact, ...]:
        """Take what was frozen in this folder to the shared place, and remove the folder; what to record: `NewRun.frozen`.

        Without a shared place nothing happens, and there is nothing to record. Raises `BadInput` when the place is another
        record's, `InfrastructureError` when it cannot be reached; the folder is as it was then.
        """
        if not self._shared:
            return ()
        if not self._checked:
            self._artifacts.check(self._record.installation())
            self._checked = True
        found = [name for name in FROZEN_FILES if (folder.path / name).exists()]
        sent = tuple(self._artifacts.keep_file(run_id, RESERVED + name, folder.path / name) for name in found)
        folder.remove()
        return sent

    def fetch(self, run_id: str, folder: RunFolder, *, names: Collection[str] = FROZEN_FILES) -> Iterator[None]:
        """Have these files of a run in `folder`, a piece with each step; those that are there already stay.

        Raises `InfrastructureError` when the content is not to be had, or is not what was frozen; no half file is left.
        """
        for artifact in self._record.frozen(run_id):
            path = folder.path / artifact.name.removeprefix(RESERVED)
            if path.name in names and not path.exists():
                yield from self._download(artifact, path)

    def release(self, run_id: str, folder: RunFolder) -> None:
        """The run has ended: remove what was fetched for it. What lies in this folder alone stays."""
        if self._record.frozen(run_id):
            folder.remove()
        elif self._shared:
            with suppress(OSError):
                folder.path.rmdir()  # there was nothing in it but secrets

    def sweep(self, runs_dir: Path) -> None:
        """Release the runs of workers that died or lost them."""
        if not self._shared:
            return
        old = [path.name for path in runs_dir.glob("run-*") if time.time() - _changed(path) > SWEEP_AFTER]
        for start in range(0, len(old), SWEPT_AT_ONCE):
            for run_id in self._record.ended(old[start : start + SWEPT_AT_ONCE]):
                self.release(run_id, RunFolder.of(runs_dir, run_id))

    def _download(self, artifact: Artifact, path: Path) -> Iterator[None]:
        draft = path.with_name(f".{path.name}-{secrets.token_hex(6)}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file, self._artifacts.open(artifact.sha256, verify=True) as content:
                while piece := content.read(PIECE):
                    file.write(piece)
                    yield
            draft.replace(path)
        except OSError as exc:
            raise InfrastructureError(f"{path}: what was frozen for the run cannot be written there: {exc.strerror}") from exc
        finally:
            draft.unlink(missing_ok=True)


def insert_frozen(connection: Connection, new: NewRun) -> None:
    """Record what was frozen, in the transaction that records the run: whoever sees the run has its inputs."""
    if new.frozen:
        names = [column.name for column in t.artifacts.columns]
        connection.execute(insert(t.artifacts), [{name: getattr(one, name) for name in names} for one in new.frozen])


def forget_secrets(connection: Connection, run_ids: Collection[str]) -> None:
    """Forget where the sealed secrets of runs are, in the transaction that ends them."""
    c = t.artifacts.c
    connection.execute(delete(t.artifacts).where(c.run_id.in_(run_ids), c.name == RESERVED + SECRETS_FILE))


def _changed(path: Path) -> float:
    """When a folder was changed, in seconds since 1970; now, when it is not there any more."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()
