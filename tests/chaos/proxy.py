"""The network between the processes under test and their servers: it can be cut, and it can freeze."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
PIECE = 64 * 1024
"""Bytes that are passed on at once."""
ANSWER = 30.0
"""Seconds for the network's own loop to do what it is told."""


class Network:
    """One event loop in a thread of its own, which carries every `Link`. Close it when done."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._links: list[Link] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()

    def link(self, target: Path | int) -> Link:
        """A way to a server: the path of its socket, or its port on this machine."""
        link = Link(target, self.do)
        self._links.append(link)
        return link

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER)

    def close(self) -> None:
        """End every connection."""

        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            for link in self._links:
                await link.end()

        self.do(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER)
        self._loop.close()


class Link:
    """The way of one process to one server. Its methods may be called from any thread."""

    def __init__(self, target: Path | int, do: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._target = target
        self._do = do
        self._cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self.port: int = do(self._open())
        """Where the process finds the server."""

    def cut(self) -> None:
        """End every connection, and let no new one come about."""
        self._do(self._set(cut=True, frozen=False))

    def freeze(self) -> None:
        """Let nothing through, and say nothing of it: connections stay, new ones seem to come about."""
        self._do(self._set(cut=False, frozen=True))

    def heal(self) -> None:
        """Let everything through again, what was held back first."""
        self._do(self._set(cut=False, frozen=False))

    async def end(self) -> None:
        """Listen no more; on the network's loop."""
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)  # transports close their sockets in the next turn of the loop

    async def _open(self) -> int:
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _set(self, *, cut: bool, frozen: bool) -> None:
        self._cut = cut
        if cut:
            for writer in list(self._writers):
                writer.transport.abort()
        if frozen:
            self._flowing.clear()
        else:
            self._flowing.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened = [writer]
        self._writers.add(writer)
        try:
            await self._flowing.wait()
            if self._cut:
                return
            there, out = await self._connect()
            opened.append(out)
            self._writers.add(out)
            ways = [asyncio.ensure_future(self._pump(reader, out)), asyncio.ensure_future(self._pump(there, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:  # the server is not there
            pass
        finally:
            for one in opened:
                self._writers.discard(one)
                one.transport.abort() if self._cut else one.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, Path):
            return await asyncio.open_unix_connection(str(self._target))
        return await asyncio.open_connection("127.0.0.1", self._target)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(PIECE):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
