"""Threads: conversations that several runs have one after the other. A run joins one by its `thread_id`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from orchestrator.client.caller import Caller
from orchestrator.client.driving import Blocking, blocking, iterating
from orchestrator.client.models import Listing, Message, Page, Thread
from orchestrator.client.rooms.paging import DEFAULT_LIMIT, every


class AsyncThreads:
    """Threads of the key's tenant."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(self, metadata: Mapping[str, Any] | None = None) -> Thread:
        """A new thread, in which nothing has been said. It is asked for once."""
        return await self._caller.post(Thread, "threads", body={"metadata": dict(metadata or {})})

    async def list(self, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None) -> Page[Thread]:
        """One page of threads, the newest first."""
        return await self._caller.get(Page[Thread], "threads", params={"limit": limit, "cursor": cursor})

    async def iterate(self, *, page_size: int = DEFAULT_LIMIT) -> AsyncIterator[Thread]:
        """Every thread."""
        page_at = partial(self.list, limit=page_size)
        async for thread in every(lambda cursor: page_at(cursor=cursor)):
            yield thread

    async def get(self, thread_id: str) -> Thread:
        """The thread as it is now."""
        return await self._caller.get(Thread, "threads", thread_id)

    async def describe(self, thread_id: str, metadata: Mapping[str, Any]) -> Thread:
        """Replace what is noted about a thread."""
        return await self._caller.change(Thread, "PATCH", "threads", thread_id, body={"metadata": dict(metadata)})

    async def delete(self, thread_id: str) -> None:
        """Remove a thread and what was said in it; its runs stay. Raises `Conflict` while one goes on."""
        await self._caller.delete("threads", thread_id)

    async def messages(self, thread_id: str) -> Sequence[Message]:
        """What was said by its runs that have ended, in order."""
        return (await self._caller.get(Listing[Message], "threads", thread_id, "messages")).items


class Threads(Blocking[AsyncThreads]):
    """See `AsyncThreads`."""

    create = blocking(AsyncThreads.create)
    list = blocking(AsyncThreads.list)
    iterate = iterating(AsyncThreads.iterate)
    get = blocking(AsyncThreads.get)
    describe = blocking(AsyncThreads.describe)
    delete = blocking(AsyncThreads.delete)
    messages = blocking(AsyncThreads.messages)
