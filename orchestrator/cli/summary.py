"""What is said when a run has ended: how, in what time, what changed, where it lies, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from orchestrator.cli.patchstat import PatchStat
from orchestrator.errors import InfrastructureError
from orchestrator.text import clean, count, duration, names, one_line, size

if TYPE_CHECKING:
    from orchestrator.cli.tally import Tally
    from orchestrator.runs.models import Artifact, Run

PATCH = "patch.diff"
MERGE_REPORT = re.compile(r"merge(-\d+)?\.md")
"""Artifacts that tell people of a merge."""
MAX_ARTIFACTS = 10
"""Artifacts, and reports of merges, that are listed one by one."""
MAX_PROBLEM = 400
"""Characters of the reason why a patch cannot be shown."""


@dataclass(frozen=True)
class Kept:
    """An artifact and where the person finds it."""

    artifact: Artifact
    place: Path | str
    """A path of this machine, or an address."""
    content: Callable[[], BinaryIO]
    """Opens it."""


def rows(run: Run, tally: Tally, kept: Sequence[Kept]) -> list[tuple[str, str]]:
    """`(label, text)` of each line below the headline."""
    found: list[tuple[str, str]] = []
    if run.error:
        reason = clean(run.error.message).splitlines() or [""]
        found += [("reason" if number == 0 else "", line) for number, line in enumerate(reason)]
    if tally.model_calls:
        tokens = f", {tally.input_tokens:,} tokens in, {tally.output_tokens:,} out" if tally.input_tokens else ""
        found.append(("agent", f"{count(tally.model_calls, 'step')}, {count(tally.tool_calls, 'tool call')}{tokens}"))
    if tally.verify_exit is not None:
        result = "passed" if tally.verify_exit == 0 else f"failed with exit code {tally.verify_exit}"
        found.append(("verify", f"{result} in {duration(tally.verify_seconds)}"))
    reports = [item for item in kept if MERGE_REPORT.fullmatch(item.artifact.name)]
    found += _children_rows(tally, reports)
    found += [row for item in kept if item.artifact.name == PATCH for row in _patch_rows(item)]
    found += _artifact_rows([item for item in kept if item.artifact.name != PATCH and item not in reports])
    if run.exit_code:
        found.append(("next", f"fanfold runs logs {run.id}"))
    return found


def headline(run: Run) -> str:
    """`success  fix-the-bug  in 3.2 s`."""
    took = f" in {duration((run.finished_at - run.created_at).total_seconds())}" if run.finished_at else ""
    attempts = f", attempt {run.attempt}" if run.attempt > 1 else ""
    kind = f" ({run.error.kind})" if run.error and run.status.value == "error" else ""
    return f"{run.status.value}{kind}  {one_line(run.name)}{took}{attempts}"


def show(file: TextIO, run: Run, tally: Tally, kept: Sequence[Kept], *, colours: bool) -> None:
    """Print it."""
    lines = [f"  {label:11}{text}".rstrip() for label, text in rows(run, tally, kept)]
    title = headline(run)
    if colours:
        colour = "32" if run.exit_code == 0 else "31"
        title = f"\x1b[1;{colour}m{title}\x1b[0m"
        lines = [f"\x1b[2m{line[:13]}\x1b[0m{line[13:]}" for line in lines]
    file.write("\n".join(["", title, *lines]) + "\n")
    file.flush()


def _children_rows(tally: Tally, reports: Sequence[Kept]) -> list[tuple[str, str]]:
    """What became of the children and of their work, and where that is told in full."""
    found: list[tuple[str, str]] = []
    if tally.children:
        failed = [one_line(tally.children.get(run, run)) for run, status in tally.ends.items() if status != "success"]
        ended = f"{len(tally.ends) - len(failed)} of {len(tally.children)} succeeded"
        found.append(("children", f"{ended}; failed: {names(failed)}" if failed else ended))
    if tally.merges:
        left = f", {count(tally.conflicts, 'conflict')} left" if tally.conflicts else ""
        without = f"; left out: {names([one_line(name) for name in tally.left_out])}" if tally.left_out else ""
        found.append(("merge", f"{count(tally.merged, 'file')} merged{left}{without}"))
    places = [clean(f"{item.artifact.name}: {item.place}") for item in reports]
    return [*found, *(("" if tally.merges or index else "merge", text) for index, text in enumerate(_some(places)))]


def _some(texts: Sequence[str]) -> list[str]:
    more = [f"and {len(texts) - MAX_ARTIFACTS} more"] if len(texts) > MAX_ARTIFACTS else []
    return [*texts[:MAX_ARTIFACTS], *more]


def _patch_rows(item: Kept) -> list[tuple[str, str]]:
    try:
        with item.content() as file:
            stat = PatchStat.of(file)
    except InfrastructureError as exc:
        return [("patch", one_line(str(exc), MAX_PROBLEM))]
    fetch = "" if isinstance(item.place, Path) else f"fanfold runs artifacts {item.artifact.run_id} --out . && "
    use = f"{fetch}git apply {PATCH if fetch else item.place}"
    return [("patch", str(stat)), *([("", use)] if stat.files else [])]


def _artifact_rows(items: Sequence[Kept]) -> list[tuple[str, str]]:
    shown = _some([clean(f"{item.place}  {size(item.artifact.size)}") for item in items])
    return [("artifacts" if number == 0 else "", text) for number, text in enumerate(shown)]
