"""The audit: what must be true when the dust has settled. Every breach is a sentence; nothing is excused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from orchestrator.runs.labels import RUN_LABEL
from orchestrator.runs.leases import MAX_LOST
from orchestrator.runs.models import Attempt, AttemptStatus, Event, Run, RunStatus
from tests.chaos.agents import LEDGER, Work
from tests.chaos.load import Load
from tests.chaos.world import World

AGENT_EVENTS = ("tool.call", "tool.result")


@dataclass
class Findings:
    """What an audit has found."""

    breaches: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    """How attempts ended."""
    adopted: int = 0
    """Live sandboxes that another worker took over."""
    begun_again: int = 0
    """Runs that had to begin again, because their sandbox was gone."""
    ledger_lines: int = 0
    gaps: list[float] = field(default_factory=list)
    """Seconds from the last sign of life of a worker that was lost until another one went on."""


def audit(world: World, load: Load) -> Findings:
    """Look at every run, and at what is left of sandboxes and processes."""
    found = Findings()
    found.breaches += load.refused
    by_id = {run.id: run for run in world.service.list(limit=10 * len(load.works))}
    for number, work in enumerate(load.works):
        run = by_id.pop(load.accepted.get(number, ""), None)
        if run is None:
            found.breaches.append(f"work {number} ({work.kind}): there is no run")
        else:
            breaches = [f"{run.id} ({work.kind}): {text}" for text in _audit_run(world, work, run, found)]
            if breaches:
                _leave_traces(world, run, breaches)
            found.breaches += breaches
    found.breaches += [f"{run_id}: nobody knows of this run: it was made twice" for run_id in by_id]
    for provider in {str(work.task["sandbox"]["provider"]) for work in load.works}:
        left = world.sandboxes(provider)
        found.breaches += [f"sandbox {one.id} of {one.labels.get(RUN_LABEL)} is left" for one in left]
    for node in world.nodes:
        found.breaches += [f"{one.node} ended by itself with {one.exit_code} after {one.lived:.1f} s"
                           for one in node.deaths if not one.excused]  # fmt: skip
        found.breaches += [f"{node.name}: process {pid} was told to leave, and is still there" for pid in node.stuck()]
    return found


def _leave_traces(world: World, run: Run, breaches: Sequence[str]) -> None:
    """Write down beside the logs what the record has of a run."""
    lines = [*breaches, *map(str, world.service.attempts(run.id))]
    lines += [f"{event.seq} {event.at:%H:%M:%S.%f} {event.type} {event.data}" for event in world.service.events(run.id)]
    (world.folder / f"{run.id}.log").write_text("\n".join(lines))


def _audit_run(world: World, work: Work, run: Run, found: Findings) -> Iterator[str]:
    events, attempts = list(world.service.events(run.id)), list(world.service.attempts(run.id))
    found.statuses[run.status] += 1
    found.attempts.update(one.status for one in attempts)
    found.adopted += sum(event.type == "sandbox.adopted" for event in events)
    found.gaps += _gaps(attempts)
    if run.status not in work.statuses:
        lost = sum(one.status is AttemptStatus.LOST for one in attempts)
        yield f"ended as {run.status}, {lost} of {len(attempts)} attempts lost: {run.error.message if run.error else ''}"
        if lost >= MAX_LOST:
            return
    yield from _audit_events(work, run, events, found)
    yield from _audit_attempts(work, run, attempts)
    for child in (children := list(world.service.children(run.id))):
        yield from (f"child {child.name}: {text}" for text in _audit_child(world, child))
    if run.status is RunStatus.SUCCESS and sum(child.status is RunStatus.SUCCESS for child in children) < work.children:
        yield f"its children ended as {[(child.status.value, child.error and child.error.message) for child in children]}"
    if work.ledger and run.status in (RunStatus.SUCCESS, RunStatus.ERROR):
        yield from _audit_ledger(world, work, run, found)


def _audit_child(world: World, child: Run) -> Iterator[str]:
    events = list(world.service.events(child.id))
    told = Counter(event.type for event in events)
    if not child.status.terminal or told["run.finished"] != 1:
        yield f"it is {child.status}, and its end is told {told['run.finished']} times"
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        yield "its events have gaps"
    gone = sum(event.type == "log" and "begins again" in event.data["text"] for event in events)
    if told["sandbox.created"] > 1 + gone:
        yield f"{told['sandbox.created']} sandboxes were made for it, and {gone} were gone"


def _audit_events(work: Work, run: Run, events: Sequence[Event], found: Findings) -> Iterator[str]:
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        yield "its events have gaps"
    if [event.type for event in events].count("run.finished") != 1 or events[-1].type != "run.finished":
        yield "its end is not told once, at the end"
    epochs = _epochs(run, events)
    begun = Counter(event.type for event in events)["sandbox.created"]
    gone = sum(event.type == "log" and "begins again" in event.data["text"] for event in events)
    found.begun_again += gone
    if begun > 1 + gone + max(0, work.failures - 1) + work.questions:
        yield f"{begun} sandboxes were made for it, and {gone} were gone"
    for epoch in epochs:
        for kind in ("model.message", *AGENT_EVENTS):
            for thing, times in Counter(event.data["id"] for event in epoch if event.type == kind).items():
                if times > 1:
                    yield f"{kind} {thing} is told {times} times"
    if run.status is RunStatus.SUCCESS:
        yield from _audit_story(work, epochs[-1])


def _audit_story(work: Work, epoch: Sequence[Event]) -> Iterator[str]:
    for kind in AGENT_EVENTS:
        told = sorted(event.data["id"] for event in epoch if event.type == kind)
        if told != sorted(work.calls):
            yield f"{kind}: {told} instead of {sorted(work.calls)}"
    failed = [event.data for event in epoch if event.type == "tool.result" and event.data["status"] != "success"]
    yield from (f"the call {data['id']} failed: {data['text'][:300]}" for data in failed)
    for kind in ("run.interrupted", "run.decided"):
        if (asked := [event.type for event in epoch].count(kind)) != work.questions:
            yield f"{kind} {asked} times, not {work.questions}"
    output = "".join(event.data["text"] for event in epoch if event.type == "command.output")
    if output != work.output:
        yield f"its command printed {output!r} instead of {work.output!r}"


def _audit_attempts(work: Work, run: Run, attempts: Sequence[Attempt]) -> Iterator[str]:
    if [one.number for one in attempts] != list(range(1, run.attempt + 1)):
        yield f"its attempts are {[one.number for one in attempts]}, and it had {run.attempt}"
    yield from (f"attempt {one.number} goes on" for one in attempts if not one.status.over)
    if attempts and attempts[-1].status.value != run.status.value:
        yield f"it ended as {run.status}, and its last attempt as {attempts[-1].status}"
    failures = sum(one.status is AttemptStatus.ERROR for one in attempts)
    if failures != work.failures:
        yield f"{failures} attempts failed instead of {work.failures}"


def _audit_ledger(world: World, work: Work, run: Run, found: Findings) -> Iterator[str]:
    name = f"files/{LEDGER}"
    if name not in {artifact.name for artifact in world.service.artifacts(run.id)}:
        yield "its ledger was not kept"
        return
    with world.service.open_artifact(run.id, name) as file:
        lines = file.read().decode().splitlines()
    found.ledger_lines += len(lines)
    twice = [line for line, times in Counter(lines).items() if times > 1]
    missing = sorted(set(work.ledger) - set(lines))
    if twice or missing or len(lines) != len(work.ledger):
        yield f"its ledger is wrong: twice {twice}, missing {missing}: {lines}"
    elif work.ordered and lines != list(work.ledger):
        yield f"its ledger is out of order: {lines}"


def _epochs(run: Run, events: Sequence[Event]) -> list[list[Event]]:
    """The events before the task was begun for the last time, and those since then."""
    starts = [n for n, event in enumerate(events) if event.type == "run.started" and event.data["attempt"] == run.epoch]
    first = starts[0] if starts else 0
    return [list(events[:first]), list(events[first:])]


def _gaps(attempts: Sequence[Attempt]) -> Iterator[float]:
    for lost, following in pairwise(attempts):
        if lost.status is AttemptStatus.LOST and lost.finished_at is not None:
            yield (following.started_at - lost.finished_at).total_seconds()
