"""What must be true of a run with a fan-out, and of this machine, when it has ended. Every breach is a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import docker

from orchestrator.errors import RunNotFound
from orchestrator.runs.family import Family
from orchestrator.runs.labels import INSTALLATION_LABEL, RUN_LABEL
from orchestrator.runs.models import Event, Run, RunStatus
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.settings import Settings
from sandboxes.providers.docker.layout import USER_LABEL_PREFIX
from sandboxes.providers.local.provider import LocalProvider
from sandboxes.providers.registry import get_provider

ONCE = ("run.finished", "merge.finished")
"""What a run with one fan-out tells once."""
NAMED = ("tool.call", "tool.result", "model.message", "child.finished")
"""What is told once for each id, or for each run."""
ONE_OF_A_KIND = ("command.started", "command.finished", "verify.started", "verify.finished", "run.finished", "sandbox.created")
"""What a run tells once at most."""
CREATED = "sandbox.created"


@dataclass(frozen=True)
class Shape:
    """What comes of a kind of run."""

    children: int = 2
    """Right below it."""
    fan_outs: int = 1
    """Of its own: one more when an agent is asked about its conflicts."""
    grandchildren: int = 0
    may_move: str = ""
    """The child that gets another sandbox when its worker dies before there is all in it that it begins with."""


SHAPES = {"declared": Shape(), "agent": Shape(), "asking": Shape(3, 2, may_move="resolver"), "nested": Shape(grandchildren=1)}


@dataclass(frozen=True)
class Ended:
    """Children that had ended at a moment."""

    attempts: Mapping[str, int]
    """How many each of them had had, by its id."""

    @classmethod
    def now(cls, settings: Settings, run_id: str) -> Ended:
        """Those below a run."""
        engine = open_database(settings.database, settings.home / "database.lock")
        children = Family(engine).tree(run_id)
        engine.dispose()
        return cls({child.id: child.attempt for child in children if child.status.terminal})


async def audit(
    settings: Settings, run_id: str, before: Ended, *, seen: str, provider: str, shape: Shape = SHAPES["declared"]
) -> list[str]:
    """Look at a run, all below it, and what is left; `seen` is what its check has to print."""
    store = Store(open_database(settings.database, settings.home / "database.lock"))
    run, children = store.get(run_id), Family(store.engine).tree(run_id)
    events = store.events(run_id)
    found = [*_story(run, events), *_result(run, events, seen, shape)]
    generations = [sum(child.depth == depth for child in children) for depth in (1, 2)]
    if generations != [shape.children, shape.grandchildren]:
        found.append(f"below it are {generations}")
    for child in children:
        told = store.events(child.id)
        moves = child.name == shape.may_move
        found += [f"child {child.name}: {text}" for text in (*_story(child, told, moves), *_work(store, child, told, moves))]
        if before.attempts.get(child.id, child.attempt) != child.attempt:
            found.append(f"child {child.name} had ended, and was executed again")
    found += await left(settings, provider, store.installation())
    found += _files(store, settings, [run, *children])
    store.close()
    return found


def _story(run: Run, events: Sequence[Event], moves: bool = False) -> Iterator[str]:
    if run.status is not RunStatus.SUCCESS:
        yield f"it ended as {run.status}: {run.error.message if run.error else ''}"
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        yield "its events have gaps"
    counts = Counter(event.type for event in events)
    counts[CREATED] -= moves
    yield from (f"{kind} is told {counts[kind]} times" for kind in ONE_OF_A_KIND if counts[kind] > 1)
    for kind in NAMED:
        ids = Counter(event.data.get("id") or event.data.get("run") for event in events if event.type == kind)
        yield from (f"{kind} {one} is told {times} times" for one, times in ids.items() if times > 1)


def _result(run: Run, events: Sequence[Event], seen: str, shape: Shape) -> Iterator[str]:
    counts = Counter(event.type for event in events)
    if counts["fan_out.started"] != shape.fan_outs:
        yield f"the beginning of {counts['fan_out.started']} fan-outs is told"
    yield from (f"{kind} is told {counts[kind]} times, not once" for kind in ONCE if counts[kind] != 1)
    if counts["child.finished"] != shape.children:
        yield f"the end of {counts['child.finished']} children is told"
    output = "".join(event.data["text"] for event in events if event.type == "verify.output")
    if output != seen:
        yield f"its files are {output!r}"
    calls, results = (sorted(one.data["id"] for one in events if one.type == kind) for kind in ("tool.call", "tool.result"))
    if calls != results:
        yield f"its agent called {calls}, and was answered {results}"


def _work(store: Store, child: Run, events: Sequence[Event], moves: bool) -> Iterator[str]:
    used = {one.sandbox_id for one in store.attempts(child.id) if one.sandbox_id}
    if not 1 <= len(used) <= 1 + moves:
        yield f"it worked in {len(used)} sandboxes"
    begun = Counter(event.type for event in events if event.type in ("command.started", "tool.call"))
    if sum(begun.values()) != 1:
        yield f"its work was begun so: {dict(begun)}"


async def left(settings: Settings, name: str, installation: str) -> list[str]:
    """What is left of the sandboxes and snapshots of an installation, and of what they stood on."""
    provider = get_provider(name, home=settings.home)
    try:
        labels = {INSTALLATION_LABEL: installation}
        found = [f"sandbox {one.id} of {one.labels.get(RUN_LABEL)} is left" for one in await provider.find(labels)]
        found += [f"snapshot {one.id} is left" for one in await provider.find_snapshots(labels)]
    finally:
        await provider.aclose()
    if isinstance(provider, LocalProvider):
        folder = provider._sandboxes
        return found + [f"the layer {one.name} is left" for one in (folder.iterdir() if folder.is_dir() else ())]
    return found + list(_left_in_engine(installation))


def _left_in_engine(installation: str) -> Iterator[str]:
    client = docker.from_env()
    try:
        labelled = {"label": f"{USER_LABEL_PREFIX}{INSTALLATION_LABEL}={installation}"}
        yield from (f"the container {one.name} is left" for one in client.containers.list(all=True, filters=labelled))
        yield from (f"the volume {one.name} is left" for one in client.volumes.list(filters=labelled))
        yield from (f"the image {one.id} is left" for one in client.images.list(all=True, filters=labelled))
    finally:
        client.close()


def _files(store: Store, settings: Settings, runs: Sequence[Run]) -> Iterator[str]:
    """What a run needs only while it is at work, and folders of children that were not recorded."""
    for folder in (settings.runs_dir / run.id for run in runs):
        scratch = [*folder.glob("fan-out-*"), *folder.glob("changes*"), *folder.glob("objects*")]
        yield from (f"{one.relative_to(settings.runs_dir)} is left" for one in scratch)
    for folder in settings.runs_dir.glob("run-*"):
        try:
            store.get(folder.name)
        except RunNotFound:
            yield f"the folder {folder.name} is of no run"
