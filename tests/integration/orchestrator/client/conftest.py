"""Both clients against a real server, and a line to it that can be cut."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from orchestrator.client import AsyncClient, Client
from orchestrator.service import Service
from tests.served import Api, serving

PIECE = 65536


@pytest.fixture(scope="module")
def api(service: Service) -> Iterator[Api]:
    """A server over the module's home, with a worker."""
    service.ensure_worker()
    with serving(service) as served:
        yield served


@pytest.fixture(scope="module", params=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """`connect(url, key)`: a client; the asynchronous one is given a blocking face, so that both take the same tests."""
    with ExitStack() as opened:
        if request.param == "blocking":
            yield lambda *arguments, **options: opened.enter_context(Client(*arguments, **options))
            return
        loop = opened.enter_context(_running())

        def make(*arguments: Any, **options: Any) -> Any:
            client = Faced(AsyncClient(*arguments, **options), loop)
            opened.callback(lambda: client.close())
            return client

        yield make


@pytest.fixture
def client(api: Api, connect: Callable[..., Any]) -> Any:
    """A client with the admin's key."""
    return connect(api.url, api.key)


@pytest.fixture
def line(api: Api) -> Iterator[Line]:
    """A line to the server, whole until it is told otherwise."""
    with Line(api.url) as made:
        yield made


class Faced:
    """The blocking face of something asynchronous: its coroutines are run to their end on a loop of another thread."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return Faced(found, self._loop) if type(found).__module__.startswith("orchestrator.client.rooms") else found

        def call(*arguments: Any, **options: Any) -> Any:
            made = found(*arguments, **options)
            return self._run(made) if inspect.iscoroutine(made) else self._each(made)

        return call

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def _each(self, source: AsyncIterator[Any]) -> Iterator[Any]:
        async def following() -> tuple[bool, Any]:
            try:
                return True, await anext(source)
            except StopAsyncIteration:
                return False, None

        try:
            while (found := self._run(following()))[0]:
                yield found[1]
        finally:
            self._run(source.aclose())  # type: ignore[attr-defined]


@contextmanager
def _running() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Line:
    """Passes connections on to a server, and cuts them as it is told: `cuts` are the bytes of answers that still get through
    on each of the next connections; a connection beyond them is whole."""

    def __init__(self, target: str) -> None:
        self.lead_to(target)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.cuts: list[int] = []
        self.connections = 0
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def lead_to(self, target: str) -> None:
        """Have the next connections go there."""
        host, _, port = target.removeprefix("http://").partition(":")
        self._target = (host, int(port))

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *exc: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in self._sockets:
            _close(one)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                self.connections += 1
                self._sockets.append(near)
                try:
                    far = socket.create_connection(self._target)
                except OSError:
                    _close(near)
                    continue
                self._sockets.append(far)
                left = self.cuts.pop(0) if self.cuts else None
                for arguments in ((near, far, None), (far, near, left)):
                    thread = threading.Thread(target=_pass_on, args=arguments)
                    self._threads.append(thread)
                    thread.start()


def _pass_on(source: socket.socket, target: socket.socket, left: int | None) -> None:
    with suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece if left is None else piece[:left])
            if left is not None:
                left -= min(left, len(piece))
                if left == 0:
                    break
    _close(source)
    _close(target)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
