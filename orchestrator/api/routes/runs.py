"""Runs: ordering them, finding them, and telling them to stop or to go on."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import AwareDatetime, ConfigDict, Field, StrictBool, StringConstraints

from orchestrator.api.auth import Administers, Reads, Writes
from orchestrator.api.following import Following
from orchestrator.api.nesting import TakenObject
from orchestrator.api.shapes import AttemptModel, Attempts, Ids, RunModel, RunPage, Runs, SpentModel, UsageModel, Usages
from orchestrator.errors import BadInput
from orchestrator.fields import Variables
from orchestrator.runs.listing import Filters
from orchestrator.runs.models import RunStatus
from orchestrator.runs.store import new_run_id
from orchestrator.service.once import digest_of
from orchestrator.service.orders import MAX_SECRETS, THREAD_ID, RunOrder
from sandboxes.providers.base import Strict

router = APIRouter(tags=["runs"])

MAX_JOIN = 300.0
"""Seconds that one request waits for the end of a run."""
MAX_PAGE = 1000
MAX_FILTERS = 32
MAX_DECISIONS = 1000
MAX_AGE = 100 * 365 * 86400.0
"""Seconds."""
MAX_COUNT = 2**31 - 1
MIN_YEAR = 1970
MAX_YEAR = 9998

RunId = Annotated[str, Path(pattern=r"^[A-Za-z0-9-]{1,64}$", description="The run's id, or a unique beginning of it.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[\x21-\x7e]{1,255}$",
        description="With the same key and body the answer is the same run for 24 hours; with another body it is 409.",
    ),
]
Trace = Annotated[str | None, Header(alias="traceparent", max_length=64, include_in_schema=False)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]
Cursor = Annotated[
    str | None, Query(pattern=r"^[A-Za-z0-9_-]{1,200}$", description="`next_cursor` of the page before, as it is.")
]
LabelFilter = Annotated[str, StringConstraints(pattern=r"^[a-z0-9./_-]{1,63}=[^\x00]{0,255}$")]

_LOCATION = {"headers": {"Location": {"description": "The run's address.", "schema": {"type": "string"}}}}
_CREATED: dict[int | str, dict[str, Any]] = {201: {"description": "The run, pending.", **_LOCATION}}


class RetryBody(Strict):
    """What a new run of the same task needs again."""

    secrets: Variables = Field(default_factory=dict, max_length=MAX_SECRETS, repr=False)
    """Values of the variables that the task's `secrets`, and its model, take."""


class DecideBody(Strict):
    """A person's answer to a run that is `interrupted`: a decision for each of its questions, in their order."""

    decisions: tuple[TakenObject, ...] = Field(min_length=1, max_length=MAX_DECISIONS)
    """Each `{"type": "approve" | "edit" | "reject" | "respond", ...}`."""


class PruneBody(Strict):
    """Which runs are to be removed: those that have ended and that every bound allows."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["older_than"]}, {"required": ["keep"]}]})

    older_than: float | None = Field(None, ge=0, le=MAX_AGE, strict=True)
    """Seconds since their end."""
    keep: int | None = Field(None, ge=0, le=MAX_COUNT, strict=True)
    """The last so many that ended stay."""
    dry_run: StrictBool = False


@router.post("/runs", status_code=HTTPStatus.CREATED, responses=_CREATED)
def create_run(caller: Writes, body: RunOrder, response: Response, key: Key = None, traceparent: Trace = None) -> RunModel:
    """Submit a run."""
    service = caller.service
    run = service.once.do(
        key,
        digest_of("runs", body.model_dump(mode="json")) if key else "",
        new_id=new_run_id,
        find=service.get,
        make=lambda run_id: service.order(body, traceparent=traceparent, run_id=run_id),
    )
    response.headers["Location"] = f"/v1/runs/{run.id}"
    return RunModel.of(run)


@router.get("/runs")
def list_runs(
    caller: Reads,
    status: Annotated[list[RunStatus], Query(max_length=MAX_FILTERS)] = [],  # noqa: B006 (FastAPI copies it)
    label: Annotated[list[LabelFilter], Query(max_length=MAX_FILTERS, description="`key=value`; all of them hold.")] = [],  # noqa: B006
    thread_id: Annotated[str | None, Query(pattern=THREAD_ID)] = None,
    batch_id: Annotated[str | None, Query(pattern=r"^bat-[0-9a-f]{12}$")] = None,
    parent_id: Annotated[str | None, Query(pattern=r"^run-[0-9a-f]{12}$", description="Its children.")] = None,
    with_children: Annotated[bool, Query(description="Without a parent_id: children as well.")] = False,
    created_after: Annotated[AwareDatetime | None, Query()] = None,
    created_before: Annotated[AwareDatetime | None, Query()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> RunPage:
    """Runs that are nobody's children, newest first. Each filter narrows the list; of several statuses any fits."""
    filters = Filters(
        statuses=frozenset(status),
        labels=_labels(label),
        thread_id=thread_id,
        batch_id=batch_id,
        parent_id=parent_id,
        with_children=with_children,
        created_after=_moment(created_after),
        created_before=_moment(created_before),
    )
    page = caller.service.page(filters, limit=limit, cursor=cursor)
    return RunPage(items=[RunModel.of(run) for run in page.runs], next_cursor=page.cursor)


@router.get("/runs/{run_id}")
def get_run(caller: Reads, run_id: RunId) -> RunModel:
    """One run."""
    return RunModel.of(caller.service.get(run_id))


@router.get("/runs/{run_id}/children")
def list_children(caller: Reads, run_id: RunId) -> Runs:
    """All runs below a run, at any depth; `parent_id` says whose child each is."""
    return Runs(items=[RunModel.of(one) for one in caller.service.children(run_id)])


@router.post("/runs/prune")
def prune_runs(caller: Administers, body: PruneBody) -> Ids:
    """Remove runs that ended long ago, with what they left; the answer are their ids."""
    chosen = caller.service.prune(older_than=body.older_than, keep=body.keep, dry_run=body.dry_run)
    return Ids(items=list(chosen))


@router.post("/runs/{run_id}/cancel", status_code=HTTPStatus.ACCEPTED)
def cancel_run(caller: Writes, run_id: RunId) -> RunModel:
    """Ask for a run to stop; it has ended soon after. One that has ended stays as it is."""
    return RunModel.of(caller.service.cancel(run_id))


@router.post("/runs/{run_id}/retry", status_code=HTTPStatus.CREATED, responses=_CREATED)
def retry_run(
    caller: Writes, run_id: RunId, response: Response, body: RetryBody | None = None, key: Key = None, traceparent: Trace = None
) -> RunModel:
    """Submit a new run of the same task with the same inputs. The run must have ended, and be nobody's child."""
    service, secrets = caller.service, body.secrets if body else {}
    run = service.once.do(
        key,
        digest_of(f"retry {service.get(run_id).id}", secrets),
        new_id=new_run_id,
        find=service.get,
        make=lambda new_id: service.retry(run_id, secrets=secrets, traceparent=traceparent, new_id=new_id),
    )
    response.headers["Location"] = f"/v1/runs/{run.id}"
    return RunModel.of(run)


@router.post("/runs/{run_id}/decide", status_code=HTTPStatus.ACCEPTED)
def decide(caller: Writes, run_id: RunId, body: DecideBody) -> RunModel:
    """Answer a run that waits for a person; it goes on."""
    run = caller.service.get(run_id)
    return RunModel.of(caller.service.decide(run.id, body.decisions))


@router.get("/runs/{run_id}/join", responses={202: {"model": RunModel, "description": "The run; it goes on."}})
async def join(
    caller: Reads,
    run_id: RunId,
    request: Request,
    response: Response,
    timeout: Annotated[float, Query(ge=0, le=MAX_JOIN, description="Seconds.")] = 60.0,
) -> RunModel:
    """Wait for the end of a run: 200 when it has ended, 202 when it goes on after `timeout` seconds."""
    run = await Following(caller.service, request.app.state.heads).end(run_id, timeout)
    if not run.status.terminal:
        response.status_code = HTTPStatus.ACCEPTED
    return RunModel.of(run)


@router.get("/runs/{run_id}/attempts")
def list_attempts(caller: Reads, run_id: RunId) -> Attempts:
    """The attempts at a run, in order."""
    return Attempts(items=[AttemptModel.of(one) for one in caller.service.attempts(run_id)])


@router.get("/runs/{run_id}/usage")
def list_usage(caller: Reads, run_id: RunId) -> Usages:
    """What the attempts at a run that have ended used of models, and what it used with all below it."""
    used = [UsageModel.of(one) for one in caller.service.usage(run_id)]
    return Usages(items=used, with_children=SpentModel.of(caller.service.spent(run_id)))


def _labels(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or found.setdefault(name, value) != value:
            raise BadInput(f"label: write key=value, each key once, not '{one}'")
    return found


def _moment(given: datetime | None) -> datetime | None:
    """A moment that the record can hold."""
    if given is not None and not MIN_YEAR <= given.year <= MAX_YEAR:
        raise BadInput(f"created_after, created_before: the year {given.year} is not between {MIN_YEAR} and {MAX_YEAR}")
    return given
