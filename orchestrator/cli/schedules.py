"""`fanfold schedules`: tasks that are run again and again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import typer

from orchestrator.cli.options import HELP_OPTIONS, Output, OutputOption, command

if TYPE_CHECKING:
    from orchestrator.spec import RunSpec

app = typer.Typer(
    help="Have tasks run again and again: list, create, trigger and remove schedules.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=HELP_OPTIONS,
)

MAX_SHOWN = 1000
"""Schedules that are listed: a tenant has no more."""
_SHOWN = (
    "id", "name", "cron", "timezone", "overlap", "enabled", "created_at", "next_at", "last_at", "last_run_id", "last_error"
)  # fmt: skip

ScheduleId = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule's id: sch-...")]
Cron = Annotated[str, typer.Option("--cron", metavar="LINE", help="Minute, hour, day, month, weekday: '30 2 * * 1-5'.")]
Zone = Annotated[str, typer.Option("--timezone", metavar="ZONE", help="In which that is read: Europe/Berlin.")]
Allow = Annotated[bool, typer.Option("--overlap", help="Begin a run also while the last one goes on.")]
Disabled = Annotated[bool, typer.Option("--disabled", help="Make it, but have nothing run yet.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")]
Task = Annotated[Path, typer.Argument(metavar="TASK", help="The task file; it names no files beside it.")]


class ScheduleFacts(Protocol):
    """A schedule as far as it is shown."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """What it is for."""
        ...

    @property
    def cron(self) -> str:
        """Minute, hour, day of the month, month, weekday."""
        ...

    @property
    def timezone(self) -> str:
        """In which that is read."""
        ...

    @property
    def enabled(self) -> bool:
        """Whether it comes at all."""
        ...

    @property
    def next_at(self) -> datetime | None:
        """When it is due next."""
        ...

    @property
    def last_at(self) -> datetime | None:
        """When it last was."""
        ...

    @property
    def last_run_id(self) -> str | None:
        """Its last run."""
        ...

    @property
    def last_error(self) -> str | None:
        """Why there was no run the last time."""
        ...


class ScheduleList(Protocol):
    """One page of them."""

    @property
    def items(self) -> Sequence[ScheduleFacts]:
        """The schedules."""
        ...


class Identified(Protocol):
    """Something with an id."""

    @property
    def id(self) -> str:
        """Its id."""
        ...


class ScheduleDoor(Protocol):
    """What these commands need of the schedules, here or behind an API; `ScheduleRoom` says more of each."""

    def create(
        self, name: str, task: RunSpec, /, *, cron: str, timezone: str, overlap: Literal["skip", "allow"], enabled: bool
    ) -> ScheduleFacts:
        """Have a task run again and again."""
        ...

    def list(self, *, limit: int) -> ScheduleList:
        """The newest first."""
        ...

    def change(self, schedule_id: str, /, *, enabled: bool) -> ScheduleFacts:
        """Have it come, or not."""
        ...

    def delete(self, schedule_id: str, /) -> None:
        """Remove one; its runs stay."""
        ...

    def trigger(self, schedule_id: str, /) -> Identified:
        """Submit its run now."""
        ...


def list_schedules(output: OutputOption = Output.text) -> int:
    """List your schedules, the newest first."""
    from orchestrator.cli.door import open_service
    from orchestrator.cli.shapes import write_json

    with open_service() as service:
        found = service.schedules.list(limit=MAX_SHOWN).items
    if output is Output.json:
        write_json([_json(one) for one in found])
    elif found:
        _table(found)
    else:
        sys.stdout.write("no schedules: fanfold schedules create NAME TASK --cron LINE makes one\n")
    return 0


def create(
    name: Name,
    task: Task,
    cron: Cron,
    timezone: Zone = "UTC",
    overlap: Allow = False,
    disabled: Disabled = False,
    output: OutputOption = Output.text,
) -> int:
    """Have a task run at the times of a line of cron."""
    from orchestrator.cli.door import open_service
    from orchestrator.cli.shapes import write_json
    from orchestrator.spec import load_task

    spec = load_task(task)
    with open_service() as service:
        made = service.schedules.create(
            name, spec, cron=cron, timezone=timezone, overlap="allow" if overlap else "skip", enabled=not disabled
        )
    if output is Output.json:
        write_json(_json(made))
    else:
        sys.stdout.write(f"{made.id} {_due(made)}\n")
    return 0


def rm(schedule: ScheduleId) -> int:
    """Remove a schedule; its runs stay, and go on."""
    from orchestrator.cli.door import open_service

    with open_service() as service:
        service.schedules.delete(schedule)
    sys.stdout.write(f"{schedule} removed\n")
    return 0


def enable(schedule: ScheduleId) -> int:
    """Have a schedule come again; what it missed is not made up for."""
    return _switch(schedule, True)


def disable(schedule: ScheduleId) -> int:
    """Have a schedule come no more until it is enabled."""
    return _switch(schedule, False)


def trigger(schedule: ScheduleId) -> int:
    """Submit its run now, and print the run's id."""
    from orchestrator.cli.door import open_service

    with open_service() as service:
        run = service.schedules.trigger(schedule)
    sys.stdout.write(f"{run.id}\n")
    return 0


def _switch(schedule: str, enabled: bool) -> int:
    from orchestrator.cli.door import open_service

    with open_service() as service:
        changed = service.schedules.change(schedule, enabled=enabled)
    sys.stdout.write(f"{changed.id} {_due(changed)}\n")
    return 0


def _table(found: Sequence[ScheduleFacts]) -> None:
    from orchestrator.cli.table import columns
    from orchestrator.text import one_line

    rows = [("SCHEDULE", "NAME", "CRON", "TIMEZONE", "NEXT", "LAST RUN", "ERROR")]
    for one in found:
        next_at = (_moment(one.next_at) or "never") if one.enabled else "disabled"
        error = one_line(one.last_error or "", 60)
        rows.append((one.id, one_line(one.name, 40), one.cron, one.timezone, next_at, one.last_run_id or "", error))
    sys.stdout.write(columns(rows, colours=sys.stdout.isatty()))


def _due(schedule: ScheduleFacts) -> str:
    return f"is due at {_moment(schedule.next_at)}" if schedule.next_at else "is disabled"


def _json(schedule: ScheduleFacts) -> dict[str, Any]:
    """A schedule; its times as text."""
    fields = {name: getattr(schedule, name) for name in _SHOWN}
    return {name: _moment(value) if isinstance(value, datetime) else value for name, value in fields.items()}


def _moment(at: datetime | None) -> str | None:
    return at.isoformat(timespec="seconds") if at else None


app.command("ls", context_settings=HELP_OPTIONS)(list_schedules)
command(app, create)
command(app, rm)
command(app, enable)
command(app, disable)
command(app, trigger)
