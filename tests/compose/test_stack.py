"""The stack is hurt while runs of every kind go on, loses its machine, and is restored: with docker-compose 1.29.

`make compose-test` is the long form, with 200 runs.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path

import pytest

from orchestrator.client.service import RemoteService
from orchestrator.runs.models import Run, RunStatus
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from sandboxes.portal import portal
from sandboxes.providers.base import SandboxHandle
from sandboxes.providers.registry import get_provider
from tests.chaos.agents import Work, make_works
from tests.chaos.audit import Findings, audit
from tests.chaos.load import Load
from tests.compose.pages import sections, type_in
from tests.compose.stack import Stack, env_file, programs, stack

pytestmark = [pytest.mark.docker, pytest.mark.timeout(3600)]

SHORT = 20
"""Runs in the short form."""
SEED = 7
PACE = 1.0
"""Seconds between two runs that are submitted."""
EVERY = 3.0
"""Seconds between two things that are killed."""
LEAST = 5
"""Parts that are killed at least: a worker twice, the API, the broker and a controller."""
RUNS_TO_A_KILL = 5
SETTLE = 600.0
"""Seconds for the last run to end when nothing is killed any more."""
BACKUP = sections("backup.md")


@dataclass(frozen=True)
class World:
    """What the chaos suite submits to and audits, over the API of a stack."""

    stack: Stack
    key: str
    folder: Path
    service: RemoteService
    nodes: tuple[()] = ()

    @property
    def addresses(self) -> list[str]:
        return [self.stack.url]

    def sandboxes(self, provider: str) -> list[SandboxHandle]:
        return self.stack.sandboxes()


class Killer:
    """Kills one part after the other, by force, so often."""

    def __init__(self, stack: Stack, times: int) -> None:
        self.killed: list[str] = []
        self._stack, self._times = stack, times
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="killer")
        self._failed: BaseException | None = None

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def finish(self) -> None:
        """Wait until all is done."""
        self._thread.join(SETTLE)

    def _go_on(self) -> None:
        """A part that crashes is started again by the engine; what `docker kill` ended, by `up`."""
        parts = cycle([("crash", "worker"), ("crash", "api"), ("kill", "redis"), ("crash", "controller"), ("kill", "worker"),
                       ("crash", "redis"), ("kill", "api"), ("crash", "postgresql"), ("kill", "controller")])  # fmt: skip
        try:
            for how, service in islice(parts, self._times):
                if self._over.wait(EVERY):
                    return
                getattr(self._stack, how)(service)
                if how == "kill":
                    self._stack("up", "--detach")
                self.killed.append(f"{service} ({how})")
        except BaseException as exc:
            self._failed = exc


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with stack(programs()[0]) as made:
        (made.folder / ".env").write_text(env_file(FANFOLD_WORKER_CONCURRENCY="6"))
        made.up()
        key = made.new_key()
        with RemoteService(Settings(url=made.url, api_key=key)) as service:
            yield World(made, key, tmp_path_factory.mktemp("compose"), service)


@dataclass(frozen=True)
class Trial:
    """Runs that have ended, whatever happened to what executed them."""

    load: Load
    findings: Findings
    killed: list[str]
    seconds: float


def works(count: int) -> list[Work]:
    """Runs of every kind. From a container an engine forks by copies, so that subagents stay in their agent's sandbox."""
    made = make_works(count, random.Random(SEED), provider="docker")
    return [replace(one, children=0) if one.kind.startswith("subagent") else one for one in made]


@pytest.fixture(scope="module")
def trial(world: World, given_servers: dict[str, str]) -> Iterator[Trial]:
    count = int(given_servers.get("FANFOLD_TEST_COMPOSE_RUNS", SHORT))
    began = time.monotonic()
    load = Load(world, works(count), PACE * count)  # type: ignore[arg-type]
    try:
        with Killer(world.stack, max(LEAST, count // RUNS_TO_A_KILL)) as killer:
            load.begin()
            load.finish()
            killer.finish()
        world.stack("up", "--detach")
        world.stack.await_ready()
        ended = lambda: all(run.status.terminal for run in world.service.list(limit=1000))  # noqa: E731
        world.stack.wait(ended, "every run has ended", SETTLE)
        world.stack.wait(lambda: not world.stack.sandboxes(), "every sandbox is gone", SETTLE)
        yield Trial(load, audit(world, load), killer.killed, time.monotonic() - began)  # type: ignore[arg-type]
    finally:
        load.close()


def test_everything_ends_as_it_should_and_nothing_happens_twice(trial: Trial) -> None:
    found = trial.findings
    print(f"\n{len(trial.load.works)} runs in {trial.seconds:.0f} s: {dict(found.statuses)}; killed: {trial.killed};"
          f" attempts {dict(found.attempts)}; adopted {found.adopted}; begun again {found.begun_again};"
          f" ledger lines {found.ledger_lines}; requests repeated {trial.load.repeated}")  # fmt: skip
    assert not found.breaches, "\n".join(found.breaches)
    assert {RunStatus.SUCCESS, RunStatus.ERROR, RunStatus.TIMEOUT} <= set(found.statuses)
    assert len(trial.killed) == max(LEAST, len(trial.load.works) // RUNS_TO_A_KILL)


def test_what_was_lost_with_the_machine_comes_back(world: World, trial: Trial, tmp_path: Path) -> None:
    going = submit(world, tmp_path)
    world.stack.wait(lambda: any(event.type == "command.output" for event in world.service.events(going.id)), "it works", 60)
    before = contents(world)

    type_in(world.stack, BACKUP["Back up"])
    assert (world.stack.folder / "backup").stat().st_mode & 0o077 == 0
    after_backup = submit(world, tmp_path)
    world.stack.wait(lambda: world.service.get(after_backup.id).started_at, "a run goes on that the backup does not know", 60)
    world.stack.down()
    lose_sandbox(world, going.id)
    (world.stack.folder / ".env").unlink()
    type_in(world.stack, BACKUP["Restore"])
    world.stack.await_ready()

    restored = contents(world)
    assert {run_id: kept for run_id, kept in restored.items() if run_id != going.id} == before
    assert after_backup.id not in restored
    world.stack.wait(lambda: all(run_of(one) != after_backup.id for one in world.stack.sandboxes()),
                     "the sandbox that nobody knows is destroyed", 60)  # fmt: skip
    world.stack.wait(lambda: begun_again(world, going), "it begins again from its inputs", 60)
    world.service.cancel(going.id)
    world.stack.wait(lambda: world.service.get(going.id).status.terminal, "it has ended", 60)
    assert_new_runs_work(world, tmp_path)


def test_an_older_backup_goes_over_what_is_there(world: World, trial: Trial, tmp_path: Path) -> None:
    type_in(world.stack, BACKUP["Back up"])
    before, newer = contents(world), submit(world, tmp_path, "true")
    type_in(world.stack, BACKUP["In place"])
    world.stack.await_ready()
    assert contents(world) == before
    assert newer.id not in before
    assert_new_runs_work(world, tmp_path)


def test_nothing_is_left_when_it_is_taken_down(world: World, trial: Trial) -> None:
    world.stack.wait(lambda: not world.stack.sandboxes(), "every sandbox is gone", 60)
    world.stack.down()
    assert not any(world.stack.leftovers().values()), world.stack.leftovers()


def submit(world: World, folder: Path, command: str = "cat note; for n in $(seq 3000); do echo tick; sleep 0.1; done") -> Run:
    """A run that works with a file of its inputs."""
    (folder / "repo").mkdir(exist_ok=True)
    (folder / "repo" / "note").write_text("noted\n")
    task = {"name": "backed-up", "command": command, "inputs": {"path": "repo"}}
    return world.service.submit(RunSpec.model_validate(task), base_dir=folder)


def begun_again(world: World, run: Run) -> bool:
    """Whether it works with its inputs once more."""
    told = "".join(one.data["text"] for one in world.service.events(run.id) if one.type == "command.output")
    return told.count("noted\n") == 2


def assert_new_runs_work(world: World, folder: Path) -> None:
    run = submit(world, folder, "cat note")
    world.stack.wait(lambda: world.service.get(run.id).status.terminal, "a new run has ended", 60)
    assert world.service.get(run.id).status is RunStatus.SUCCESS, world.service.get(run.id).error
    assert "".join(one.data["text"] for one in world.service.events(run.id) if one.type == "command.output") == "noted\n"


def contents(world: World) -> dict[str, tuple[object, ...]]:
    """Of each run that has ended: what it is, its events, and its artifacts with their contents."""
    found: dict[str, tuple[object, ...]] = {}
    for run in world.service.list(limit=1000, with_children=True):
        if run.status.terminal:
            kept = {}
            for artifact in world.service.artifacts(run.id):
                with world.service.open_artifact(run.id, artifact.name) as file:
                    kept[artifact.name] = file.read()
            found[run.id] = (run, list(world.service.events(run.id)), kept)
    assert found
    return found


def run_of(handle: SandboxHandle) -> str:
    return str(handle.labels["fanfold.run"])


def lose_sandbox(world: World, run_id: str) -> None:
    """The machine that had it is gone."""

    async def destroy(handle: SandboxHandle) -> None:
        provider = get_provider("docker", home=world.folder)
        try:
            await provider.destroy(handle)
        finally:
            await provider.aclose()

    for one in world.stack.sandboxes():
        if run_of(one) == run_id:
            portal.run(destroy(one))
