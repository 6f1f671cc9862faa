"""What is said when a run has ended: how, in what time, what changed, where it lies, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from orchestrator.cli.patchstat import PatchStat
from orchestrator.errors import InfrastructureError
from orchestrator.text import clean, count, duration, one_line, size

if TYPE_CHECKING:
    from orchestrator.cli.tally import Tally
    from orchestrator.runs.models import Artifact, Run

PATCH = "patch.diff"
MAX_ARTIFACTS = 10
"""Artifacts that are listed one by one."""
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
    found += [row for item in kept if item.artifact.name == PATCH for row in _patch_rows(item)]
    found += _artifact_rows([item for item in kept if item.artifact.name != PATCH])
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
    shown = [f"{item.place}  {size(item.artifact.size)}" for item in items[:MAX_ARTIFACTS]]
    if len(items) > MAX_ARTIFACTS:
        shown.append(f"and {len(items) - MAX_ARTIFACTS} more")
    return [("artifacts" if number == 0 else "", clean(text)) for number, text in enumerate(shown)]
