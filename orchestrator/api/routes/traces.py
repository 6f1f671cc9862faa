"""What a run does and leaves: events, log, artifacts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from sse_starlette.sse import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from orchestrator.api.auth import Caller, Reads
from orchestrator.api.following import Following
from orchestrator.api.ranges import content, head, not_modified
from orchestrator.api.routes.runs import MAX_PAGE, RunId
from orchestrator.api.shapes import ArtifactModel, Artifacts, EventModel, EventPage
from orchestrator.errors import NotFound
from orchestrator.runs.artifacts import MAX_NAME_BYTES
from orchestrator.runs.models import Artifact, Event
from orchestrator.story import Story

router = APIRouter(tags=["runs"])

MAX_WAIT = 60.0
"""Seconds that one request waits for events."""
MAX_SEQ = 2**31 - 1
"""What the record's column for numbers of events holds."""
PING = 15
"""Seconds between two signs of life on a stream on which nothing happens."""
SEND_TIMEOUT = 60.0
"""Seconds after which a client that reads nothing is left."""
LAST_WORDS = 5.0
"""Seconds that a stream has to end by itself when the server ends, before it is cut off; less than the server waits for it."""

ArtifactName = Annotated[str, Path(max_length=MAX_NAME_BYTES)]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events: a page, or with `Accept: text/event-stream` a stream that ends after `run.finished`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_DOWNLOAD: dict[int | str, dict[str, Any]] = {
    200: {"description": "The content.", "content": _BYTES},
    206: {"description": "The part that `Range` asked for.", "content": _BYTES},
    304: {"description": "It is what `If-None-Match` names."},
    416: {"description": "There is no such part.", "content": {"application/problem+json": {}}},
}


@router.get("/runs/{run_id}/events", response_model=EventPage, responses=_STREAM)
async def events(
    caller: Reads,
    run_id: RunId,
    request: Request,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    last: Annotated[str | None, Header(alias="Last-Event-ID", pattern=r"^[0-9]{1,10}$")] = None,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ, description="The number of the last event that is known.")] = 0,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for an event (long poll).")] = 0.0,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = MAX_PAGE,
) -> EventPage | Response:
    """What happens in a run, in order."""
    if last is not None:
        after = min(int(last), MAX_SEQ)
    following = Following(caller.service, request.app.state.heads)
    run = await run_in_threadpool(caller.service.get, run_id)
    if "text/event-stream" in accept:
        stream = following.stream(run.id, after)
        headers = {"Cache-Control": "no-store"}
        return EventSourceResponse(
            stream, ping=PING, send_timeout=SEND_TIMEOUT, shutdown_grace_period=LAST_WORDS, headers=headers
        )
    page, ended = await following.next_page(run.id, after, limit=limit, wait=wait)
    return EventPage(items=[EventModel.of(event) for event in page], ended=ended)


@router.get(
    "/runs/{run_id}/log",
    response_class=Response,
    responses={200: {"description": "Dated lines.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def log(caller: Reads, run_id: RunId) -> Response:
    """What happened in a run so far, as lines for people; their times are UTC."""
    run = caller.service.get(run_id)
    return StreamingResponse(_lines(caller.service.events(run.id)), media_type="text/plain; charset=utf-8")


def _lines(found: Iterable[Event]) -> Iterator[str]:
    story = Story()
    for event in found:
        for line in story.feed(event):
            yield f"{line.at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ} {line.text}".rstrip() + "\n"


@router.get("/runs/{run_id}/artifacts")
def list_artifacts(caller: Reads, run_id: RunId) -> Artifacts:
    """What a run has left so far, by name."""
    return Artifacts(items=[ArtifactModel.of(one) for one in caller.service.artifacts(run_id)])


@router.get("/runs/{run_id}/artifacts/{name:path}", response_class=Response, responses=_DOWNLOAD)
def get_artifact(caller: Reads, run_id: RunId, name: ArtifactName, request: Request) -> Response:
    """The content of an artifact, or a part of it."""
    artifact = _artifact(caller, run_id, name)
    return not_modified(request, artifact) or content(request, artifact, caller.service.open_artifact(run_id, name))


@router.head("/runs/{run_id}/artifacts/{name:path}", response_class=Response, responses=_DOWNLOAD)
def head_artifact(caller: Reads, run_id: RunId, name: ArtifactName, request: Request) -> Response:
    """What the download of an artifact would begin with."""
    artifact = _artifact(caller, run_id, name)
    return not_modified(request, artifact) or head(artifact)


def _artifact(caller: Caller, run_id: str, name: str) -> Artifact:
    for artifact in caller.service.artifacts(run_id):
        if artifact.name == name:
            return artifact
    raise NotFound(f"run {run_id} has no artifact '{name}'; GET /v1/runs/{run_id}/artifacts lists them")
