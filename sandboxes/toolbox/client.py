"""One connection to a sandbox's helper: many calls at once over one stream, and nothing that comes back is trusted."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sandboxes.errors import CallLost, ProtocolError, SandboxError, SandboxGone, SandboxTimeout
from sandboxes.portal import on
from sandboxes.toolbox.helper import wire
from sandboxes.toolbox.link import Link
from sandboxes.toolbox.tracing import call_span

CALL_SECONDS = 60.0
"""How long a call may take that is not given a deadline."""
PATIENCE = 30.0
"""Seconds of silence after which a helper that is being waited for is asked whether it still lives."""
PING_SECONDS = 15.0

V = TypeVar("V")
Unwrap = Callable[[memoryview], Iterable[memoryview]]


class Refusal(Exception):
    """The helper refused a call. `code` and `message` are for whoever made it; not a `SandboxError`: the helper is well."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Reply:
    """What a call brought: fields, to be taken with `get`, and bytes."""

    fields: Mapping[str, Any]
    payload: bytes = b""

    def get(self, name: str, kind: type[V]) -> V:
        """A field that must be there and be of this type. Raises `ProtocolError`."""
        value = self.fields.get(name)
        if not isinstance(value, kind) or (isinstance(value, int) and kind is int and (isinstance(value, bool) or value < 0)):
            raise ProtocolError(f"the sandbox's helper answered with {name}={value!r:.80}, not {kind.__name__}")
        return value

    def maybe(self, name: str, kind: type[V]) -> V | None:
        """A field that may be missing or null."""
        return None if self.fields.get(name) is None else self.get(name, kind)


class ToolboxClient:
    """The calling side of the wire protocol. Made by `connect`; lives on one event loop."""

    def __init__(self, sock: socket.socket, unwrap: Unwrap, early: bytes) -> None:
        self._home = asyncio.get_running_loop()
        self._link = Link(sock, self._received, self._ended, early=early)
        self._unwrap = unwrap
        self._decoder = wire.Decoder(wire.REPLY_CAP)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._abandoned: set[int] = set()
        self._failure: SandboxError | None = None

    async def call(
        self, op: str, payload: bytes = b"", *, deadline: float | None = CALL_SECONDS, **fields: object
    ) -> Reply:
        """Make one call, from any loop. Raises `Refusal`, or `SandboxError` when the helper or the connection fails.

        `deadline` is in seconds; None waits as long as the helper shows signs of life. A call that is cancelled or late is
        given up at the helper too.
        """
        with call_span(op):
            return await on(self._home, self._call(op, payload, deadline, fields))

    async def _call(self, op: str, payload: bytes, deadline: float | None, fields: dict[str, object]) -> Reply:
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        future: asyncio.Future[Reply] = loop.create_future()
        self._waiting[number] = future
        timer = None if deadline is None else loop.call_later(deadline, _expire, future, op, deadline)
        try:
            self._send({"id": number, "op": op, **fields}, payload)
            await self._link.drain()
            return await (self._patiently(future) if deadline is None else future)
        except OSError as exc:
            raise self._failure or SandboxGone(f"the connection to the sandbox broke: {exc}") from exc
        finally:
            if timer is not None:
                timer.cancel()
            if number in self._waiting:
                del self._waiting[number]
                self._give_up(number)

    async def _patiently(self, future: asyncio.Future[Reply]) -> Reply:
        while True:
            done, _ = await asyncio.wait([future], timeout=PATIENCE)
            if done:
                return future.result()
            await self.call("hello", protocol=wire.PROTOCOL, deadline=PING_SECONDS)

    def _send(self, header: dict[str, object], payload: bytes = b"") -> None:
        try:
            parts = wire.encode(header, payload)
        except wire.WireError as exc:
            raise Refusal("too_large", f"Error: {exc}") from exc
        self._link.send(parts)

    def _give_up(self, number: int) -> None:
        if self._failure is None:
            self._abandoned.add(number)
            with contextlib.suppress(OSError):
                self._send({"op": "cancel", "call": number})

    def _received(self, data: memoryview) -> None:
        try:
            for piece in self._unwrap(data):
                for header, payload in self._decoder.feed(piece):
                    self._receive(header, payload)
        except wire.WireError as exc:
            self._fail(ProtocolError(f"the sandbox's helper {exc}"))
        except SandboxError as exc:
            self._fail(exc)

    def _ended(self, failure: OSError | None) -> None:
        why = "the sandbox's helper closed the connection: the sandbox has ended or was killed"
        self._fail(SandboxGone(why if failure is None else f"the connection to the sandbox broke: {failure}"))

    def _receive(self, header: dict[str, Any], payload: bytes) -> None:
        number = header.get("id")
        if not isinstance(number, int) or number not in self._waiting:
            if isinstance(number, int) and number in self._abandoned:
                self._abandoned.discard(number)
                return
            raise ProtocolError(f"the sandbox's helper answered a call that was not made: {number!r:.80}")
        outcome = _outcome(header, payload)
        future = self._waiting.pop(number)
        if future.done():
            return  # given up in this very moment
        if isinstance(outcome, Reply):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)

    def _fail(self, failure: SandboxError) -> None:
        """Fail what waits, and whatever is called from now on."""
        if self._failure is not None:
            return
        self._failure = failure
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(failure)
                future.exception()  # mark as seen: whoever waits still gets it
        self._link.close()

    async def aclose(self) -> None:
        """End the connection; calls under way fail."""
        await on(self._home, self._close())

    async def _close(self) -> None:
        self._fail(SandboxGone("the connection to the sandbox was closed"))


def _outcome(header: dict[str, Any], payload: bytes) -> Reply | Refusal | CallLost:
    if "error" in header:
        code, message = str(header["error"]), str(header.get("message", header["error"]))
        return CallLost(message) if code == "call_lost" else Refusal(code, message)
    if not isinstance(header.get("ok"), dict):
        raise ProtocolError("the sandbox's helper sent a reply with neither 'ok' nor 'error'")
    return Reply(header["ok"], payload)


def _expire(future: asyncio.Future[Reply], op: str, deadline: float) -> None:
    if not future.done():
        future.set_exception(SandboxTimeout(f"the sandbox did not answer '{op}' within {deadline:g} s"))


async def connect(
    sock: socket.socket, *, deadline: float, unwrap: Unwrap = lambda data: (data,), early: bytes = b""
) -> ToolboxClient:
    """Greet the helper at the other end of a connected stream socket within `deadline` seconds.

    The client owns the socket; on failure it is closed. `unwrap` takes apart what a platform wraps around the helper's output,
    and `early` is what of it has been read already.
    """
    client = ToolboxClient(sock, unwrap, early)
    try:
        reply = await client.call("hello", protocol=wire.PROTOCOL, deadline=deadline)
        if reply.get("protocol", int) != wire.PROTOCOL:
            raise ProtocolError(f"the sandbox's helper speaks protocol {reply.fields['protocol']}, not {wire.PROTOCOL}")
    except Refusal as exc:
        await client.aclose()
        raise ProtocolError(f"the sandbox's helper refused the greeting: {exc.message:.200}") from exc
    except BaseException:
        await client.aclose()
        raise
    return client
