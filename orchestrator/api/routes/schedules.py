"""Schedules of the tenant: runs that are submitted again and again."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field, StrictBool

from orchestrator.api.auth import Reads, Writes
from orchestrator.api.routes.runs import Cursor, Limit
from orchestrator.api.shapes import RunModel
from orchestrator.runs.schedules import Overlap, Schedule
from orchestrator.service.orders import RunOrder
from orchestrator.service.schedules import MAX_NAME
from orchestrator.timetable import MAX_CRON
from sandboxes.providers.base import Strict

router = APIRouter(tags=["schedules"])

ScheduleId = Annotated[str, Path(pattern=r"^sch-[0-9a-f]{12}$")]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
Cron = Annotated[str, Field(min_length=1, max_length=MAX_CRON)]
Zone = Annotated[str, Field(min_length=1, max_length=64)]


class ScheduleBody(Strict):
    """A schedule to be made."""

    name: Name
    cron: Cron
    """Minute, hour, day of the month, month, day of the week: `30 2 * * 1-5`."""
    timezone: Zone = "UTC"
    """In which `cron` is read: `Europe/Berlin`."""
    run: RunOrder
    """As `POST /v1/runs` takes it, without uploads, secrets and `multitask_strategy`."""
    overlap: Overlap = Overlap.SKIP
    """What happens when it is due while its last run goes on: `skip` leaves that time out, `allow` begins another run."""
    enabled: StrictBool = True


class ScheduleChange(Strict):
    """What is to be changed of a schedule; what is left out, or null, stays."""

    name: Name | None = None
    cron: Cron | None = None
    timezone: Zone | None = None
    run: RunOrder | None = None
    overlap: Overlap | None = None
    enabled: StrictBool | None = None


class ScheduleModel(BaseModel):
    """A schedule."""

    id: str
    tenant: str
    name: str
    cron: str
    timezone: str
    run: dict[str, Any]
    overlap: Overlap
    enabled: bool
    created_at: datetime
    next_at: datetime | None
    """When it is due next; null while it is disabled."""
    last_at: datetime | None
    """When it last was."""
    last_run_id: str | None
    last_error: str | None
    """Why there was no run the last time; null when there was one."""

    @classmethod
    def of(cls, schedule: Schedule) -> ScheduleModel:
        """From the record's."""
        fields = dict(vars(schedule))
        return cls(run=fields.pop("order"), **fields)


class SchedulePage(BaseModel):
    """Some of the schedules, newest first."""

    items: list[ScheduleModel]
    next_cursor: str | None
    """For `cursor` of the next request; null at the end."""


@router.post("/schedules", status_code=HTTPStatus.CREATED)
def create_schedule(caller: Writes, body: ScheduleBody, response: Response) -> ScheduleModel:
    """Have a run submitted again and again."""
    made = caller.service.schedules.create(
        body.name, body.run, cron=body.cron, timezone=body.timezone, overlap=body.overlap, enabled=body.enabled
    )
    response.headers["Location"] = f"/v1/schedules/{made.id}"
    return ScheduleModel.of(made)


@router.get("/schedules")
def list_schedules(caller: Reads, limit: Limit = 50, cursor: Cursor = None) -> SchedulePage:
    """The tenant's schedules, newest first."""
    page = caller.service.schedules.list(limit, cursor)
    return SchedulePage(items=[ScheduleModel.of(schedule) for schedule in page.items], next_cursor=page.cursor)


@router.get("/schedules/{schedule_id}")
def get_schedule(caller: Reads, schedule_id: ScheduleId) -> ScheduleModel:
    """One schedule."""
    return ScheduleModel.of(caller.service.schedules.get(schedule_id))


@router.patch("/schedules/{schedule_id}")
def change_schedule(caller: Writes, schedule_id: ScheduleId, body: ScheduleChange) -> ScheduleModel:
    """Change a schedule, and when it is due next: never a time that is over."""
    changed = caller.service.schedules.change(
        schedule_id,
        name=body.name,
        cron=body.cron,
        timezone=body.timezone,
        run=body.run,
        overlap=body.overlap,
        enabled=body.enabled,
    )
    return ScheduleModel.of(changed)


@router.delete("/schedules/{schedule_id}", status_code=HTTPStatus.NO_CONTENT)
def delete_schedule(caller: Writes, schedule_id: ScheduleId) -> None:
    """Delete a schedule; its runs stay, and go on."""
    caller.service.schedules.delete(schedule_id)


@router.post("/schedules/{schedule_id}/trigger", status_code=HTTPStatus.CREATED)
def trigger_schedule(caller: Writes, schedule_id: ScheduleId, response: Response) -> RunModel:
    """Submit its run now, whether it is enabled or not, and whatever goes on; when it is due next stays as it is."""
    run = caller.service.schedules.trigger(schedule_id)
    response.headers["Location"] = f"/v1/runs/{run.id}"
    return RunModel.of(run)
