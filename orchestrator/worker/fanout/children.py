"""Making the children of a run: each gets a folder of its own with what it needs, before it is recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from orchestrator.runs.files import RunFolder
from orchestrator.runs.models import NewRun, Run, RunStatus
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.fanout.order import REPORT, ChildEnd, FanOutOrder, NewChild

REPORT_CAP = 256 * 1024
"""Bytes of a report that its parent reads."""


@contextmanager
def prepared(work: Assignment, order: FanOutOrder) -> Iterator[list[NewRun]]:
    """The children of a fan-out, ready to be recorded. When that fails, nothing is left of them.

    Nor is anything left of what a worker had prepared here that died before it could record it.
    """
    _remove_left(work, order)
    runs: list[NewRun] = []
    try:
        runs.extend(_prepared(work, order.key, place, child) for place, child in enumerate(order.children))
        yield runs
    except BaseException:
        for run in runs:
            RunFolder.of(work.settings.runs_dir, run.id).remove()
        raise


def _remove_left(work: Assignment, order: FanOutOrder) -> None:
    for token in range(1, work.lease.token):
        for place in range(len(order.children)):
            RunFolder.of(work.settings.runs_dir, _child_id(work.run.id, token, order.key, place)).remove()


def _child_id(parent_id: str, token: int, key: str, place: int) -> str:
    """Another one with each claim of the parent, and never left to chance: so what a lost claim has left can be found."""
    return "run-" + hashlib.sha256(f"{parent_id}:{token}:{key}:{place}".encode()).hexdigest()[:12]


def _prepared(work: Assignment, key: str, place: int, child: NewChild) -> NewRun:
    run_id = _child_id(work.run.id, work.lease.token, key, place)
    folder = RunFolder.of(work.settings.runs_dir, run_id, work.folder.vault)
    try:
        folder.create()
        if child.model_file is not None:
            folder.model_file.write_bytes(child.model_file)
        folder.write_secrets(work.secrets)
        frozen = work.frozen.send(run_id, folder)
    except BaseException:
        folder.remove()
        raise
    spec = child.spec.model_dump(mode="json")
    return NewRun(run_id, child.name, spec, fan_out=key, place=place, frozen=frozen)


def ends_of(work: Assignment, children: Sequence[Run]) -> list[ChildEnd]:
    """How children ended, and what they had to say. Raises `InfrastructureError` when that is not to be had."""
    return [ChildEnd(child, _report(work, child)) for child in children]


def _report(work: Assignment, child: Run) -> str:
    if child.error is not None or child.status is not RunStatus.SUCCESS:
        return child.error.message if child.error else f"it was {child.status.value}"
    kept = next((one for one in work.store.artifacts(child.id) if one.name == REPORT), None)
    if kept is None:
        return ""
    return b"".join(work.artifacts.pieces(kept.sha256, 0, REPORT_CAP)).decode("utf-8", "replace")
