"""Server-sent events, put together from the pieces of a stream as they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.errors import InfrastructureError

MAX_MESSAGE = 64 * 1024 * 1024
"""Bytes of one message that are held; a server that sends more without an end is given up."""


@dataclass(frozen=True)
class Message:
    """One message: the text of its `data` lines, and what its `id` and `event` lines say."""

    data: str
    id: str = ""
    event: str = "message"


class MessageReader:
    """Gets bytes, in pieces that end anywhere, and gives the messages that they complete. Comments are passed over."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._fields: dict[str, str] = {}
        self._data: list[str] = []
        self._held = 0

    def feed(self, piece: bytes) -> Iterator[Message]:
        """The messages that `piece` completes. Raises `InfrastructureError` when one grows over `MAX_MESSAGE`."""
        self._rest += piece
        *lines, rest = self._rest.split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            self._held += len(line)
            message = self._take(line.removesuffix(b"\r").decode(errors="replace"))
            if message:
                yield message
        if self._held + len(self._rest) > MAX_MESSAGE:
            raise InfrastructureError(f"the server sends an event of more than {MAX_MESSAGE // 1024**2} MiB; it was given up")

    def _take(self, line: str) -> Message | None:
        if not line:
            return self._finish()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name:
            self._fields[name] = value
        return None

    def _finish(self) -> Message | None:
        fields, data = self._fields, self._data
        self._fields, self._data, self._held = {}, [], 0
        return Message("\n".join(data), fields.get("id", ""), fields.get("event", "message")) if data else None
