"""Batches: many runs in one call."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from orchestrator.api.auth import Caller, Reads, Writes
from orchestrator.api.bodies import MAX_BODY
from orchestrator.api.problems import Fault, Refused, problem
from orchestrator.api.routes.runs import Cursor, Key, Limit
from orchestrator.api.turns import CLOSE, Turns
from orchestrator.runs.batches import Batch, new_batch_id
from orchestrator.service import Service
from orchestrator.service.batches import MAX_NAME, BatchRefused, LineError, Mode, Submitted
from orchestrator.service.once import digest_of

router = APIRouter(tags=["batches"])

BatchId = Annotated[str, Path(pattern=r"^bat-[0-9a-f]{12}$")]
Name = Annotated[str, Query(min_length=1, max_length=MAX_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]

MAX_SENDING = 120.0
"""Seconds in which a batch has to come whole: until then it keeps others out."""

_BODY = {
    "requestBody": {
        "required": True,
        "description": "A body of `POST /v1/runs` on each line; at most 10,000, and 64 MiB altogether.",
        "content": {"application/x-ndjson": {"schema": {"type": "string", "minLength": 1}}},
    }
}
_LOCATION = {"headers": {"Location": {"description": "The batch's address.", "schema": {"type": "string"}}}}
_CREATED: dict[int | str, dict[str, Any]] = {201: {"description": "The batch.", **_LOCATION}}


class LineErrorModel(BaseModel):
    """Why a line was not taken."""

    line: int
    """Counted from 1, blank lines too."""
    detail: str


class BatchModel(BaseModel):
    """A batch."""

    id: str
    tenant: str
    name: str
    created_at: datetime
    size: int
    """The runs that it was submitted with."""
    counts: dict[str, int]
    """How many of them have which status, as far as they were not removed since."""

    @classmethod
    def of(cls, batch: Batch) -> BatchModel:
        """From the record's."""
        return cls(**{**vars(batch), "counts": {status.value: number for status, number in batch.counts.items()}})


class SubmittedModel(BatchModel):
    """A batch that was just submitted."""

    errors: list[LineErrorModel]
    """Lines that were not taken (`mode=partial`), the first 100 of them."""


class BatchPage(BaseModel):
    """Some of the batches, newest first."""

    items: list[BatchModel]
    next_cursor: str | None
    """For `cursor` of the next request; null at the end."""


@router.post("/batches", status_code=HTTPStatus.CREATED, response_model=SubmittedModel, responses=_CREATED, openapi_extra=_BODY)
async def create_batch(
    caller: Writes, request: Request, response: Response, mode: Mode = "atomic", name: Name = "batch", key: Key = None
) -> SubmittedModel | Response:
    """Submit a run for each line. With `atomic` none is recorded when a line is wrong, with `partial` the others are."""
    try:
        with _turn(caller, request):
            made = await asyncio.to_thread(_submit, caller.service, await _body(request), mode, name, key)
    except BatchRefused as exc:
        faults = [Fault(loc=f"line {one.line}", msg=one.detail) for one in exc.errors]
        return problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, str(exc), errors=faults)
    response.headers["Location"] = f"/v1/batches/{made.batch.id}"
    errors = [LineErrorModel(line=one.line, detail=one.detail) for one in made.errors]
    return SubmittedModel(**BatchModel.of(made.batch).model_dump(), errors=errors)


def _turn(caller: Caller, request: Request) -> AbstractContextManager[None]:
    """Only few large batches are in memory at a time; one that is no larger than any other request's body is free."""
    turns: Turns = request.app.state.batches
    told = request.headers.get("content-length", "")
    return nullcontext() if told and int(told) <= MAX_BODY else turns.take(caller.tenant, "large batches")


async def _body(request: Request) -> bytes:
    try:
        async with asyncio.timeout(MAX_SENDING):
            return await request.body()
    except TimeoutError as exc:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the batch had not come whole after {MAX_SENDING:.0f} s", CLOSE) from exc
    except ClientDisconnect as exc:
        raise Refused(HTTPStatus.BAD_REQUEST, "the batch broke off") from exc


def _submit(service: Service, body: bytes, mode: Mode, name: str, key: str | None) -> Submitted:
    return service.once.do(
        key,
        digest_of(f"batches {mode} {name}", body),
        new_id=new_batch_id,
        find=lambda batch_id: Submitted(service.batches.get(batch_id)),
        make=lambda batch_id: service.batches.submit(body.split(b"\n"), mode=mode, name=name, batch_id=batch_id),
        note=lambda made: [vars(one) for one in made.errors],
        recall=lambda found, noted: Submitted(found.batch, [LineError(**one) for one in noted or ()]),
    )


@router.get("/batches")
def list_batches(caller: Reads, limit: Limit = 50, cursor: Cursor = None) -> BatchPage:
    """Batches, newest first."""
    page = caller.service.batches.page(limit, cursor)
    return BatchPage(items=[BatchModel.of(batch) for batch in page.items], next_cursor=page.cursor)


@router.get("/batches/{batch_id}")
def get_batch(caller: Reads, batch_id: BatchId) -> BatchModel:
    """One batch, and how far its runs are."""
    return BatchModel.of(caller.service.batches.get(batch_id))


@router.post("/batches/{batch_id}/cancel", status_code=HTTPStatus.ACCEPTED)
def cancel_batch(caller: Writes, batch_id: BatchId) -> BatchModel:
    """Ask all runs of a batch to stop; those that have ended stay as they are."""
    return BatchModel.of(caller.service.batches.cancel(batch_id))
