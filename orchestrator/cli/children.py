"""The runs below a run: their tree, as lines for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.cli.table import columns
from orchestrator.cli.tally import beginning_of
from orchestrator.text import duration, one_line

if TYPE_CHECKING:
    from orchestrator.runs.models import Run
    from orchestrator.runs.spent import Spent

MAX_SHOWN = 50
"""Runs of a tree that are shown one by one."""


@dataclass(frozen=True)
class Below:
    """What is below a run."""

    children: Sequence[Run]
    """All of them, those nearest to it first."""
    spent: Spent
    """What the run and all of these have used."""


def tree_rows(run: Run, children: Sequence[Run]) -> list[tuple[str, str]]:
    """`(label, text)` of a line for each run below, under the one whose child it is; none when nothing is there."""
    shown = [_cells(child, child.depth - run.depth - 1, again) for child, again in _walk(run.id, _by_parent(children))]
    if not shown:
        return []
    lines = columns(shown[:MAX_SHOWN]).splitlines()
    if len(shown) > MAX_SHOWN:
        lines.append(f"and {len(shown) - MAX_SHOWN} more: fanfold runs ls --parent {run.id} --all")
    return [("tree" if index == 0 else "", line) for index, line in enumerate(lines)]


def time_of(run: Run) -> float:
    """Seconds from a run's first begin to its end; 0 for one that has not begun, or not ended."""
    return (run.finished_at - run.started_at).total_seconds() if run.finished_at and run.started_at else 0.0


def _by_parent(children: Sequence[Run]) -> dict[str | None, list[Run]]:
    found: dict[str | None, list[Run]] = defaultdict(list)
    for child in children:
        found[child.parent_id].append(child)
    return found


def _walk(parent: str, children: dict[str | None, list[Run]]) -> Iterator[tuple[Run, bool]]:
    """Each run before those below it; and whether its parent has begun again since."""
    siblings = children.get(parent, [])
    for child in siblings:
        yield child, beginning_of(child.fan_out or "") != beginning_of(siblings[-1].fan_out or "")
        yield from _walk(child.id, children)


def _cells(child: Run, level: int, again: bool) -> tuple[str, ...]:
    took = duration(time_of(child)) if child.finished_at else ""
    name = "  " * level + one_line(child.name, 60)
    return name, child.status.value, took, child.id, "of an earlier attempt" if again else ""
