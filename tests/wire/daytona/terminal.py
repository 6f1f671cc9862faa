"""Terminals over WebSockets, as the daemon of a Daytona sandbox serves them: many viewers of one, and none may be slow."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
from typing import Any, Final

from fastapi import WebSocket, WebSocketDisconnect

from tests.wire.daytona.faults import Faults
from tests.wire.daytona.running import PIECE, Running, ready

READ_LIMIT: Final = 64 * 1024
"""Bytes of a message from a client; a longer one ends its connection."""
QUEUE: Final = 256
"""Pieces of output that wait for a client; one that lets more come up is cut off."""
ENVS: Final = "X-Daytona-Pty-Envs~"
EXIT_CONTROL: Final = "X-Daytona-Pty-Exit-Control"


class Terminal:
    """A shell on a terminal, and its clients."""

    def __init__(self, running: Running, faults: Faults) -> None:
        assert running.terminal is not None
        self.running = running
        self._faults = faults
        self._master = running.terminal
        os.set_blocking(self._master, False)
        self._input: asyncio.Queue[bytes] = asyncio.Queue(1024)
        self._clients: dict[WebSocket, asyncio.Queue[bytes | None]] = {}
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        self._sent = 0

    async def _read(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                try:
                    data = os.read(self._master, PIECE)
                except BlockingIOError:
                    await ready(self._master, write=False)
                    continue
                if not data:
                    return
                for client, queue in list(self._clients.items()):
                    try:
                        queue.put_nowait(data)
                    except asyncio.QueueFull:
                        del self._clients[client]
                        await client.close(1008, "slow consumer")
                await asyncio.sleep(0)

    async def _write(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                rest = memoryview(await self._input.get())
                while rest:
                    try:
                        rest = rest[os.write(self._master, rest) :]
                    except BlockingIOError:
                        await ready(self._master, write=True)

    async def serve(self, client: WebSocket) -> None:
        """Carry bytes both ways until either side has had enough."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUE)
        self._clients[client] = queue
        await client.send_text(json.dumps({"type": "control", "status": "connected"}))
        sending = asyncio.create_task(self._send(client, queue))
        try:
            while True:
                message = await client.receive()
                if message["type"] == "websocket.disconnect":
                    return
                data = message["bytes"] if message.get("bytes") is not None else message["text"].encode()
                if len(data) > READ_LIMIT:
                    await client.close(1009, "message too big")
                    return
                await self._input.put(data)
        except (WebSocketDisconnect, RuntimeError):
            return
        finally:
            self._clients.pop(client, None)
            sending.cancel()

    async def _send(self, client: WebSocket, queue: asyncio.Queue[bytes | None]) -> None:
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            while (data := await queue.get()) is not None:
                cut = self._faults.cut_stream_after
                if cut is not None and self._sent + len(data) > cut:
                    self._faults.cut_stream_after = None
                    client.scope["wire.cut"]()
                    return
                self._sent += len(data)
                if self._faults.stream_rate is not None:
                    await asyncio.sleep(len(data) / self._faults.stream_rate)
                await client.send_bytes(data)

    async def ended(self) -> None:
        """Wait for the end of the shell, and tell it to the clients."""
        code = await self.running.ended
        told = json.dumps({"exitCode": 137 if code is None else code})
        for client in list(self._clients):
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await client.close(1000 if code == 0 else 1011, told)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(OSError):
            os.close(self._master)


def envs_of(client: WebSocket) -> tuple[dict[str, str], str | None]:
    """The variables that a client asks for with its subprotocols, and the subprotocol to answer with."""
    envs: dict[str, Any] = {}
    offered = client.scope.get("subprotocols", [])
    for one in offered:
        if one.startswith(ENVS):
            packed = one.removeprefix(ENVS)
            envs = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    return envs, EXIT_CONTROL if EXIT_CONTROL in offered else None
