"""Schedules: runs that are submitted again and again, at times that a line of cron tells."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from orchestrator.errors import BadInput
from orchestrator.runs.database import now
from orchestrator.runs.models import Run
from orchestrator.runs.schedules import Overlap, Schedule, new_schedule_id
from orchestrator.runs.schedules import Schedules as ScheduleRecord
from orchestrator.runs.store import new_run_id
from orchestrator.service.installation import Installation
from orchestrator.service.once import digest_of
from orchestrator.service.orders import RunOrder
from orchestrator.service.paging import Page, page_of
from orchestrator.spec import RunSpec
from orchestrator.timetable import Timetable

if TYPE_CHECKING:
    from orchestrator.service.door import Service

MAX_NAME = 100
"""Characters of a schedule's name."""
NOT_KEPT = {"uploads", "secrets", "multitask_strategy"}
"""Parts of an order that no schedule has."""


class ScheduleRoom:
    """The schedules of one tenant."""

    def __init__(self, installation: Installation, door: Service) -> None:
        self._of = installation
        self._door = door
        self._tenant = door.tenant

    @cached_property
    def _record(self) -> ScheduleRecord:
        return ScheduleRecord(self._of.engine)

    def create(
        self,
        name: str,
        run: RunOrder | RunSpec,
        *,
        cron: str,
        timezone: str = "UTC",
        overlap: Overlap | Literal["skip", "allow"] = Overlap.SKIP,
        enabled: bool = True,
    ) -> Schedule:
        """Have `run`, or a task alone, submitted whenever `cron` says so in this time zone; see `Timetable`.

        Raises `BadInput`, also for a run that cannot be kept: one with uploads, or with secrets that the operator does not give
        everybody; `NotFound` for a thread that is not there; and `Conflict` when there are too many schedules.
        """
        table = Timetable.of(cron, timezone)
        moment = now()
        made = Schedule(
            id=new_schedule_id(),
            tenant=self._tenant,
            name=_checked_name(name),
            cron=cron,
            timezone=timezone,
            order=self._kept(run if isinstance(run, RunOrder) else RunOrder(task=run)),
            overlap=Overlap(overlap),
            enabled=enabled,
            created_at=moment,
            next_at=table.after(moment) if enabled else None,
        )
        self._record.add(made)
        return made

    def get(self, schedule_id: str) -> Schedule:
        """The schedule with this id. Raises `NotFound`."""
        return self._record.get(schedule_id, tenant=self._tenant)

    def list(self, limit: int = 50, cursor: str | None = None) -> Page[Schedule]:
        """At most `limit` schedules, the newest first. Raises `BadInput` for a cursor that is none."""
        return page_of(partial(self._record.page, tenant=self._tenant), limit, cursor)

    def change(
        self,
        schedule_id: str,
        *,
        name: str | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        run: RunOrder | None = None,
        overlap: Overlap | None = None,
        enabled: bool | None = None,
    ) -> Schedule:
        """Change what is given, and when it is due next: never a time that is over. Raises `NotFound`, and as `create`."""
        old = self.get(schedule_id)
        values: dict[str, Any] = {
            "name": old.name if name is None else _checked_name(name),
            "cron": old.cron if cron is None else cron,
            "timezone": old.timezone if timezone is None else timezone,
            "order": old.order if run is None else self._kept(run),
            "overlap": (overlap or old.overlap).value,
            "enabled": old.enabled if enabled is None else enabled,
        }
        due = Timetable.of(values["cron"], values["timezone"]).after(now())
        return self._record.change(schedule_id, {**values, "next_at": due if values["enabled"] else None}, tenant=self._tenant)

    def delete(self, schedule_id: str) -> None:
        """Delete a schedule; its runs stay, and go on. Raises `NotFound`."""
        self._record.remove(schedule_id, tenant=self._tenant)

    def trigger(self, schedule_id: str) -> Run:
        """Submit its run now, whether it is enabled or not, and whatever goes on; when it is due next stays as it is.

        Raises `NotFound`, and as `Service.order`.
        """
        run = self.submit(self.get(schedule_id).order, key=None)
        noted = {"last_at": now(), "last_run_id": run.id, "last_error": None}
        self._record.change(schedule_id, noted, tenant=self._tenant)
        return run

    def submit(self, order: dict[str, Any], key: str | None) -> Run:
        """Submit what a schedule has kept; the same key gives the same run. Raises as `Service.order`."""
        try:
            wanted = RunOrder.model_validate(order)
        except ValidationError as exc:  # kept by an earlier version
            raise BadInput(f"the schedule's run is not valid any more: {exc.errors()[0]['msg']}; change it") from exc
        make = partial(_order, self._door, wanted)
        return self._door.once.do(
            key, digest_of("schedule", order), new_id=new_run_id, find=self._door.get, make=make
        )

    def _kept(self, run: RunOrder) -> dict[str, Any]:
        """An order as it is kept. Raises `BadInput`, and `NotFound` for a thread that is not there."""
        if run.uploads.inputs or run.uploads.model:
            raise BadInput("run.uploads: an upload is there for a day; let the task fetch a repository (task.inputs.git)")
        if run.secrets:
            raise BadInput(
                "run.secrets: a schedule keeps no secrets; its task may take those that the operator gives everybody"
                " (FANFOLD_ALLOWED_SECRETS)"
            )
        if run.multitask_strategy is not None:
            raise BadInput("run.multitask_strategy: a schedule's runs wait for their turn in the thread: leave it out")
        if refused := sorted(set(run.task.secret_variables.values()) - self._of.settings.allowed_secrets):
            names = ", ".join(refused)
            raise BadInput(f"run.task.secrets: {names} is not among FANFOLD_ALLOWED_SECRETS, and a schedule has no others")
        run.resolved(git=self._of.settings.api_git)
        if run.thread_id is not None:
            self._door.threads.get(run.thread_id)
        return run.model_dump(mode="json", exclude=NOT_KEPT, exclude_none=True)


def _order(door: Service, order: RunOrder, run_id: str) -> Run:
    return door.order(order, run_id=run_id)


def _checked_name(name: str) -> str:
    if not (0 < len(name) <= MAX_NAME and name.isprintable()):
        raise BadInput(f"the name of a schedule is 1 to {MAX_NAME} printable characters")
    return name


def submitter(service: Service) -> Callable[[str, dict[str, Any], str], str]:
    """What a controller submits with what is due: for a tenant, what a schedule has kept, and a key; the run's id."""

    def submit(tenant: str, order: dict[str, Any], key: str) -> str:
        return service.of(tenant).schedules.submit(order, key).id

    return submit
