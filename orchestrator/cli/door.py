"""The door to the service, and taking one run through it: submit, watch, look at what it left.

The service is that of this machine, or an API: with `FANFOLD_URL` the same commands work there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self

from orchestrator.cli.interrupt import Interrupts
from orchestrator.cli.summary import Kept
from orchestrator.cli.tally import Tally
from orchestrator.errors import BadInput, FanfoldError

if TYPE_CHECKING:
    from orchestrator.cli.schedules import ScheduleDoor
    from orchestrator.cli.view import View
    from orchestrator.runs.models import Artifact, Attempt, Event, ModelUsage, Run, RunStatus
    from orchestrator.runs.sandboxes import Executed, SandboxInfo, SandboxListing
    from orchestrator.runs.spent import Spent
    from orchestrator.service import Named, Service
    from orchestrator.settings import Settings
    from orchestrator.spec import RunSpec


class SandboxDoor(Protocol):
    """What the commands need of the sandboxes; `SandboxRoom` says more of each."""

    def list(self) -> SandboxListing:
        """All of them."""
        ...

    def destroy(self, sandbox_id: str, *, force: bool = False) -> None:
        """End one."""
        ...

    def keep(self, sandbox_id: str, seconds: float) -> SandboxInfo:
        """Have one stay."""
        ...

    def exec(self, sandbox_id: str, command: str, *, timeout: float = ...) -> Executed:
        """Run a command in one."""
        ...


class Door(Protocol):
    """What the commands need of a service, here or behind an API; `Service` says more of each."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def submit(
        self, spec: RunSpec, *, base_dir: Path, granted: Collection[str] = (), named: Collection[Named] = ()
    ) -> Run:
        """Record a run, with all that it needs of this machine."""
        ...

    def get(self, run_id: str) -> Run:
        """A run by the beginning of its id."""
        ...

    def list(self, status: RunStatus | None = None, limit: int = 50, *, with_children: bool = False) -> Sequence[Run]:
        """The newest runs first."""
        ...

    def children(self, run_id: str) -> Sequence[Run]:
        """All runs below a run."""
        ...

    def cancel(self, run_id: str) -> Run:
        """Ask for a run to stop."""
        ...

    def decide(self, run_id: str, decisions: Sequence[Mapping[str, Any]]) -> Run:
        """Answer what a run asks."""
        ...

    def retry(self, run_id: str, *, secrets: Mapping[str, str]) -> Run:
        """Make a new run of the same task."""
        ...

    def events(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """What has happened."""
        ...

    def follow(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """What has happened and what happens, until the run has ended."""
        ...

    def attempts(self, run_id: str) -> Sequence[Attempt]:
        """The attempts at a run."""
        ...

    def usage(self, run_id: str) -> Sequence[ModelUsage]:
        """What they used of models."""
        ...

    def spent(self, run_id: str) -> Spent:
        """What a run and all below it have used."""
        ...

    def artifacts(self, run_id: str) -> Sequence[Artifact]:
        """What a run has left."""
        ...

    def open_artifact(self, run_id: str, name: str) -> BinaryIO:
        """The content of an artifact."""
        ...

    def artifact_place(self, artifact: Artifact) -> Path | str:
        """Where that is."""
        ...

    def prune(self, *, older_than: float | None, keep: int | None, dry_run: bool) -> Sequence[str]:
        """Remove runs that ended long ago."""
        ...

    @property
    def sandboxes(self) -> SandboxDoor:
        """The sandboxes of runs."""
        ...

    def ensure_worker(self) -> object:
        """Have somebody who executes runs."""
        ...

    @property
    def schedules(self) -> ScheduleDoor:
        """What is run again and again."""
        ...


@dataclass(frozen=True)
class Order:
    """A run as it is to be submitted; see `Service.submit` for the fields."""

    spec: RunSpec
    base_dir: Path
    granted: Collection[str] = ()
    named: Collection[Named] = ()


@dataclass(frozen=True)
class Outcome:
    """A run that has ended. What it left can be opened as long as the service is open."""

    run: Run
    tally: Tally
    kept: list[Kept]


def open_service() -> Door:
    """The service of this user: that of `FANFOLD_URL`, or this machine's. Raises `BadInput` when the settings are wrong."""
    from orchestrator.settings import load_settings

    settings = load_settings(make_home=False)
    if settings.url is None:
        return open_record()
    from orchestrator.client.service import RemoteService

    return RemoteService(settings)


def open_record(settings: Settings | None = None) -> Service:
    """The service of this machine, for what is done to the record itself. Raises `BadInput` when the settings are wrong."""
    from orchestrator.service import Service
    from orchestrator.settings import load_settings, make_private_folder
    from orchestrator.telemetry.traces import configure_traces

    settings = settings or load_settings(make_home=False)
    if settings.url is not None:
        raise BadInput("FANFOLD_URL is set, and this command works on the record of this machine: unset it, or use the API")
    make_private_folder(settings.home)
    configure_traces("cli")
    return Service(settings)


def submit(service: Door, order: Order) -> Run:
    """Submit a run; see `Service.submit`."""
    return service.submit(order.spec, base_dir=order.base_dir, granted=order.granted, named=order.named)


def watch(service: Door, run: Run, view: View) -> Outcome:
    """Have a worker, and show the run until it has ended. SIGINT and SIGTERM cancel it (see `Interrupts`)."""
    tally = Tally()
    with view, Interrupts(lambda: service.cancel(run.id), view.say):
        try:
            service.ensure_worker()
        except FanfoldError:
            # Nobody executes it now, and nobody waits for it any more: it must not begin some day by surprise.
            service.cancel(run.id)
            raise
        for event in service.follow(run.id):
            tally.feed(event)
            view.event(event)
    return Outcome(service.get(run.id), tally, kept_of(service, run.id))


def kept_of(service: Door, run_id: str) -> list[Kept]:
    """What a run has left so far. Its content can be opened as long as the service is open."""
    return [
        Kept(item, service.artifact_place(item), partial(service.open_artifact, run_id, item.name))
        for item in service.artifacts(run_id)
    ]
