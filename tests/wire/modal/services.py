"""The two services as grpclib wants them: what is not spoken is refused by name; each call is checked, counted and troubled."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from grpclib import GRPCError, Status
from grpclib.const import Handler
from modal_proto import api_pb2

from tests.wire.modal.counts import Counts
from tests.wire.modal.faults import Fault, Faults
from tests.wire.modal.keys import Keys

if TYPE_CHECKING:
    from grpclib.server import Stream

Serve = Callable[["Stream[Any, Any]"], Awaitable[None]]
NO_SESSION: Final = ("SandboxGetFromName", "SandboxCreate", "SandboxGetTaskId", "SandboxTerminate")
"""The methods about sandboxes, of the first kind, that ask for the account's key alone. All others ask for a session's token as
well."""


def complete(base: type[Any], *spoken: object) -> dict[str, Handler]:
    """The methods of `base`: those of the `spoken`, and refusals for all others."""

    def refusal(name: str) -> Callable[..., Awaitable[None]]:
        async def refuse(_self: object, _stream: Stream[Any, Any]) -> None:
            raise GRPCError(Status.UNIMPLEMENTED, f"this server does not speak {name}")

        return refuse

    methods = {
        name: next((getattr(one, name) for one in spoken if hasattr(one, name)), None) for name in base.__abstractmethods__
    }
    bodies = {name: (lambda _self, stream, f=f: f(stream)) if f else refusal(name) for name, f in methods.items()}
    service = type("Service", (base,), bodies)()
    found: dict[str, Handler] = service.__mapping__()
    return found


class Guarded:
    """A service for grpclib's server."""

    def __init__(self, mapping: dict[str, Handler]) -> None:
        self._mapping = mapping

    def __mapping__(self) -> dict[str, Handler]:
        return self._mapping


@dataclass(frozen=True)
class Guard:
    """What comes before and after each call."""

    keys: Keys
    counts: Counts
    faults: Faults
    _connections: weakref.WeakSet[asyncio.Transport] = field(default_factory=weakref.WeakSet)

    async def disconnect(self) -> None:
        """Break every connection."""
        for transport in list(self._connections):
            transport.abort()
        await asyncio.sleep(0)

    def around(self, mapping: dict[str, Handler], *, control: bool) -> Guarded:
        """The same methods, guarded."""
        guarded = {path: one._replace(func=self._guarded(path, one.func, control)) for path, one in mapping.items()}
        return Guarded(guarded)

    def _guarded(self, path: str, serve: Serve, control: bool) -> Serve:
        rpc = path.rpartition("/")[2]

        async def guarded(stream: Stream[Any, Any]) -> None:
            self._connections.add(_transport(stream))
            self.counts.add(rpc, requests=1)
            _count(stream, rpc, self.counts)
            if control:
                self.keys.check_account(stream.metadata or {})
                if rpc.startswith("Sandbox") and rpc not in NO_SESSION:
                    self.keys.check_session(stream.metadata or {})
            if (fault := self.faults.take(rpc)) is not None:
                await _before(fault, stream)
            await serve(stream)

        return guarded


def _transport(stream: Stream[Any, Any]) -> asyncio.Transport:
    found: asyncio.Transport = stream._stream._transport  # type: ignore[assignment]
    return found


def _count(stream: Stream[Any, Any], rpc: str, counts: Counts) -> None:
    receive, send = stream.recv_message, stream.send_message

    async def recv_message() -> Any:
        message = await receive()
        if message is not None:
            counts.add(rpc, received=message.ByteSize())
        return message

    async def send_message(message: Any) -> None:
        counts.add(rpc, sent=message.ByteSize())
        await send(message)

    stream.recv_message = recv_message  # type: ignore[method-assign]
    stream.send_message = send_message  # type: ignore[method-assign]


async def _before(fault: Fault, stream: Stream[Any, Any]) -> None:
    """Let a fault befall a call."""
    if fault.kind == "slow":
        await asyncio.sleep(fault.seconds)
    elif fault.kind == "lost-before":
        await _break(stream)
    elif fault.kind in ("lost-after", "cut"):
        send, instead = stream.send_message, fault.kind == "lost-after"

        async def break_off(message: Any) -> None:
            if not instead:
                await send(message)
            await _break(stream)

        stream.send_message = break_off  # type: ignore[method-assign]
    else:
        raise _error(fault)


async def _break(stream: Stream[Any, Any]) -> None:
    """Break the connection; what else goes over it breaks, too."""
    _transport(stream).abort()
    await asyncio.sleep(0)
    raise ConnectionAbortedError("broken on demand")


def _error(fault: Fault) -> GRPCError:
    if fault.kind == "rate":
        policy = api_pb2.RPCRetryPolicy(retry_after_secs=fault.seconds)
        return GRPCError(Status.RESOURCE_EXHAUSTED, "Rate limit exceeded", [policy])
    status, message = {
        "rate-untold": (Status.RESOURCE_EXHAUSTED, "Too many requests: rate limit exceeded"),
        "quota": (Status.RESOURCE_EXHAUSTED, "Workspace has reached its limit of concurrent sandboxes"),
        "unavailable": (Status.UNAVAILABLE, "The service is unavailable"),
        "denied": (Status.PERMISSION_DENIED, "This token may not do that"),
        "expired": (Status.UNAUTHENTICATED, "Token has expired"),
    }[fault.kind]
    return GRPCError(status, message)
