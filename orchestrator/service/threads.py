"""Threads: conversations that several runs have one after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.runs.conversations import Conversations
from orchestrator.runs.threads import Thread, new_thread_id
from orchestrator.runs.threads import Threads as ThreadRecord
from orchestrator.service.installation import Installation
from orchestrator.service.paging import Page, page_of

MAX_METADATA = 16 * 1024
"""Bytes of a thread's metadata as JSON."""
_ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}
"""How a kind of message of langchain's is called here."""


@dataclass(frozen=True)
class ToolCall:
    """What an agent asked of a tool."""

    id: str
    name: str
    args: dict[str, Any]


@dataclass(frozen=True)
class Message:
    """Something that was said in a thread."""

    role: str
    """`user`, `assistant`, `tool` or `system`."""
    text: str
    """Its text; of what is not text nothing is shown."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """Of a tool's answer: the call that it answers."""


class Threads:
    """The threads of one tenant."""

    def __init__(self, installation: Installation, tenant: str) -> None:
        self._of = installation
        self._tenant = tenant

    @cached_property
    def _record(self) -> ThreadRecord:
        return ThreadRecord(self._of.engine)

    def create(self, metadata: dict[str, Any] | None = None) -> Thread:
        """A new thread, in which nothing has been said. Raises `BadInput` for metadata that are too large."""
        return self._record.add(new_thread_id(), _checked(metadata or {}), tenant=self._tenant)

    def get(self, thread_id: str) -> Thread:
        """The thread with this id. Raises `NotFound`."""
        return self._record.get(thread_id, tenant=self._tenant)

    def page(self, limit: int = 50, cursor: str | None = None) -> Page[Thread]:
        """At most `limit` threads, the newest first, beginning where `cursor` says. Raises `BadInput` for a wrong one."""
        return page_of(partial(self._record.page, tenant=self._tenant), limit, cursor)

    def describe(self, thread_id: str, metadata: dict[str, Any]) -> Thread:
        """Replace a thread's metadata. Raises `NotFound`, or `BadInput` when they are too large."""
        return self._record.describe(thread_id, _checked(metadata), tenant=self._tenant)

    def delete(self, thread_id: str) -> None:
        """Delete a thread and what was said in it; its runs stay. Raises `NotFound`, or `Conflict` while one goes on."""
        self._record.remove(thread_id, tenant=self._tenant)

    def messages(self, thread_id: str) -> Sequence[Message]:
        """What has been said in a thread by the runs that have ended, in order. Raises `NotFound`."""
        self.get(thread_id)
        latest = Conversations(self._of.engine).latest(thread_id, tenant=self._tenant)
        if latest is None:
            return []
        if latest.kind != "json":
            raise InfrastructureError(f"thread {thread_id}: its conversation is of the kind '{latest.kind}'; upgrade fanfold")
        return [_message_of(one["type"], one["data"]) for one in json.loads(latest.data)["messages"]]


def _checked(metadata: dict[str, Any]) -> dict[str, Any]:
    try:
        size = len(json.dumps(metadata, ensure_ascii=False, allow_nan=False).encode())
    except ValueError as exc:
        raise BadInput("metadata: it holds a number that is none, or half a character: not everybody can read that") from exc
    if size > MAX_METADATA:
        raise BadInput(f"metadata: {size:,} bytes as JSON; at most {MAX_METADATA:,} are kept")
    return metadata


def _message_of(kind: str, data: dict[str, Any]) -> Message:
    """A message from langchain's `messages_to_dict` form, of which every kind that we do not know is shown by its name."""
    calls = tuple(ToolCall(call.get("id") or "", call["name"], call["args"]) for call in data.get("tool_calls") or ())
    return Message(_ROLES.get(kind, kind), _text_of(data.get("content")), calls, data.get("tool_call_id"))


def _text_of(content: object) -> str:
    """The text of a message's content, which is text or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(
        block if isinstance(block, str) else block.get("text", "")
        for block in blocks
        if isinstance(block, str) or block.get("type") == "text"
    )
