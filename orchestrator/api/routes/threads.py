"""Threads: conversations that several runs have one after the other."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field

from orchestrator.api.auth import Reads, Writes
from orchestrator.api.nesting import TakenObject, ToldObject, ToldText
from orchestrator.api.routes.runs import Cursor, Limit
from orchestrator.runs.threads import Thread
from orchestrator.service.orders import THREAD_ID
from orchestrator.service.threads import Message
from sandboxes.providers.base import Strict

router = APIRouter(tags=["threads"])

ThreadId = Annotated[str, Path(pattern=THREAD_ID)]

_LOCATION = {"headers": {"Location": {"description": "The thread's address.", "schema": {"type": "string"}}}}
_CREATED: dict[int | str, dict[str, Any]] = {201: {"description": "The thread.", **_LOCATION}}
_GONE: dict[int | str, dict[str, Any]] = {204: {"description": "It is gone."}}


class ThreadBody(Strict):
    """What is noted about a thread."""

    metadata: TakenObject = Field(default_factory=dict)
    """Anything, up to 16 KiB as JSON."""


class ThreadPatch(Strict):
    """What is noted about a thread from now on."""

    metadata: TakenObject
    """Instead of what was noted before; up to 16 KiB as JSON."""


class ThreadModel(BaseModel):
    """A thread."""

    id: str
    tenant: str
    created_at: datetime
    metadata: ToldObject

    @classmethod
    def of(cls, thread: Thread) -> ThreadModel:
        """From the record's."""
        return cls(**vars(thread))


class ThreadPage(BaseModel):
    """Some of the threads, newest first."""

    items: list[ThreadModel]
    next_cursor: str | None
    """For `cursor` of the next request; null at the end."""


class ToolCallModel(BaseModel):
    """What an agent asked of a tool."""

    id: ToldText
    name: ToldText
    args: ToldObject


class MessageModel(BaseModel):
    """Something that was said."""

    role: str
    """`user`, `assistant`, `tool` or `system`."""
    text: ToldText
    tool_calls: list[ToolCallModel]
    tool_call_id: str | None
    """Of a tool's answer: the call that it answers."""

    @classmethod
    def of(cls, message: Message) -> MessageModel:
        """From the service's."""
        calls = [ToolCallModel(id=call.id, name=call.name, args=call.args) for call in message.tool_calls]
        return cls(role=message.role, text=message.text, tool_calls=calls, tool_call_id=message.tool_call_id)


class Messages(BaseModel):
    """What was said in a thread, in order."""

    items: list[MessageModel]


@router.post("/threads", status_code=HTTPStatus.CREATED, responses=_CREATED)
def create_thread(caller: Writes, response: Response, body: ThreadBody | None = None) -> ThreadModel:
    """Make a thread, in which nothing has been said. Runs join it by their `thread_id`."""
    made = caller.service.threads.create(body.metadata if body else {})
    response.headers["Location"] = f"/v1/threads/{made.id}"
    return ThreadModel.of(made)


@router.get("/threads")
def list_threads(caller: Reads, limit: Limit = 50, cursor: Cursor = None) -> ThreadPage:
    """Threads, newest first."""
    page = caller.service.threads.page(limit, cursor)
    return ThreadPage(items=[ThreadModel.of(thread) for thread in page.items], next_cursor=page.cursor)


@router.get("/threads/{thread_id}")
def get_thread(caller: Reads, thread_id: ThreadId) -> ThreadModel:
    """One thread."""
    return ThreadModel.of(caller.service.threads.get(thread_id))


@router.patch("/threads/{thread_id}")
def describe_thread(caller: Writes, thread_id: ThreadId, body: ThreadPatch) -> ThreadModel:
    """Replace what is noted about a thread."""
    return ThreadModel.of(caller.service.threads.describe(thread_id, body.metadata))


@router.delete("/threads/{thread_id}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, responses=_GONE)
def delete_thread(caller: Writes, thread_id: ThreadId) -> None:
    """Delete a thread and what was said in it; its runs stay. 409 while a run of it goes on."""
    caller.service.threads.delete(thread_id)


@router.get("/threads/{thread_id}/messages")
def list_messages(caller: Reads, thread_id: ThreadId) -> Messages:
    """What was said in a thread by its runs that have ended, in order."""
    return Messages(items=[MessageModel.of(message) for message in caller.service.threads.messages(thread_id)])
