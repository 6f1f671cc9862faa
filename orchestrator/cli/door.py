"""Opening the service, and taking one run through it: submit, watch, look at what it left."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.interrupt import Interrupts
from orchestrator.cli.summary import Kept
from orchestrator.cli.tally import Tally
from orchestrator.errors import FanfoldError

if TYPE_CHECKING:
    from orchestrator.cli.view import View
    from orchestrator.runs.models import Run
    from orchestrator.service import Named, Service
    from orchestrator.settings import Settings
    from orchestrator.spec import RunSpec


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


def open_service(settings: Settings | None = None) -> Service:
    """The service of this user. Raises `BadInput` when the settings are wrong."""
    from orchestrator.service import Service
    from orchestrator.settings import load_settings

    return Service(settings or load_settings())


def submit(service: Service, order: Order) -> Run:
    """Submit a run; see `Service.submit`."""
    return service.submit(order.spec, base_dir=order.base_dir, granted=order.granted, named=order.named)


def watch(service: Service, run: Run, view: View) -> Outcome:
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


def kept_of(service: Service, run_id: str) -> list[Kept]:
    """What a run has left so far. Its content can be opened as long as the service is open."""
    return [
        Kept(item, service.artifact_place(item), partial(service.open_artifact, run_id, item.name))
        for item in service.artifacts(run_id)
    ]
