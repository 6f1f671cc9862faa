"""The way from a run to its record: events in order, without secrets, written in batches beside the event loop."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from orchestrator.redact import Redactor
from orchestrator.runs.models import Lease, NewEvent
from orchestrator.runs.store import Store, now

MERGE_LIMIT = 16 * 1024
"""Characters up to which pieces of one stream that wait to be written become one event."""


class Recorder:
    """Records the events of one run under its lease. Used on one event loop.

    What cannot be written because the lease is over is dropped: the worker learns of it by its heartbeat.
    """

    def __init__(self, store: Store, lease: Lease, redactor: Redactor) -> None:
        self.redactor = redactor
        self._store = store
        self._lease = lease
        self._waiting: list[NewEvent] = []
        self._writing = asyncio.Lock()
        self._woken = asyncio.Event()
        self._writer = asyncio.create_task(self._write_on())
        self._broken: Exception | None = None

    def emit(self, kind: str, data: dict[str, Any]) -> None:
        """Record an event; it is written soon, in order."""
        self._add(NewEvent(kind, self.redactor.data(data), now()))

    def log(self, level: str, text: str) -> None:
        """Record a remark for the person who reads the run: `info`, `warning` or `error`."""
        self.emit("log", {"level": level, "text": text})

    def output(self, kind: str, stream: str, piece: bytes, offset: int | None = None) -> None:
        """Record output that has been redacted already; `offset` is where the stream goes on behind it (bytes)."""
        text = piece.decode("utf-8", "replace")
        data: dict[str, Any] = {"stream": stream, "text": text, **({} if offset is None else {"offset": offset})}
        if text.encode() != piece:
            data["base64"] = base64.b64encode(piece).decode()
        elif self._waiting and _continues(self._waiting[-1], kind, stream, text):
            last = self._waiting.pop()
            data["text"] = last.data["text"] + text
        self._add(NewEvent(kind, data, now()))

    async def flush(self) -> None:
        """Wait until all is written that was recorded so far. Raises what made that impossible."""
        async with self._writing:
            batch, self._waiting = self._waiting, []
            if batch and self._broken is None:
                try:
                    await asyncio.to_thread(self._store.append, self._lease, batch)
                except Exception as exc:
                    self._broken = exc
        if self._broken is not None:
            raise self._broken

    async def close(self) -> None:
        """Write what waits, and end. Raises like `flush`."""
        await self.abandon()
        await self.flush()

    async def abandon(self) -> None:
        """End; what is not written yet stays unwritten, unless `flush` is called."""
        self._writer.cancel()
        await asyncio.wait([self._writer])

    def _add(self, event: NewEvent) -> None:
        if self._broken is None:
            self._waiting.append(event)
            self._woken.set()

    async def _write_on(self) -> None:
        while self._broken is None:
            await self._woken.wait()
            self._woken.clear()
            await asyncio.shield(asyncio.ensure_future(self._flush_quietly()))

    async def _flush_quietly(self) -> None:
        try:
            await self.flush()
        except Exception:
            self._waiting.clear()  # `_broken` says why; `close` and `flush` tell it to whoever asks


def _continues(last: NewEvent, kind: str, stream: str, text: str) -> bool:
    same = last.type == kind and last.data.get("stream") == stream and "base64" not in last.data
    return same and len(last.data["text"]) + len(text) <= MERGE_LIMIT
