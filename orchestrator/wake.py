"""Word through the broker that something has happened, so that nobody has to wait for the next look.

It is a message to whoever listens at the moment. One that nobody hears is lost, and costs the time until the next look.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from orchestrator.queue import translated

WAITS = "fanfold.wake"
"""The bell that rings when there is something to dispatch."""
ENDED = "fanfold.ended"
"""The bell that rings when a run has ended; the word is its id."""
ANSWER_TIMEOUT = 5.0
"""Seconds for the broker to take a message."""
LISTEN_FOR = 0.5
"""Seconds after which a listener looks whether it is to stop."""
AGAIN_AFTER = 1.0
"""Seconds until a listener that lost the broker tries again."""


def client_url(broker_url: str) -> str | None:
    """The address of the broker as its own client writes it; None when it is no Redis or Valkey that can be asked directly."""
    parts = urlsplit(broker_url)
    if parts.scheme == "redis+socket":
        database = parse_qs(parts.query).get("virtual_host", ["0"])[0].strip("/") or "0"
        return f"unix://{parts.netloc}{parts.path}?db={database}"
    return broker_url if parts.scheme in ("redis", "rediss", "unix") else None


class Bell:
    """Rings, and hears others ring. Safe to use from many threads. Close it when done."""

    def __init__(self, broker_url: str, name: str) -> None:
        """Those with the same name hear each other."""
        self._url = client_url(broker_url)
        self._name = name
        self._lock = threading.Lock()
        self._client: Any = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def ring(self, word: str = "") -> None:
        """Tell whoever listens. Raises `InfrastructureError` when the broker is away."""
        if self._url is not None:
            with translated():
                self._connected().publish(self._name, word)

    def listen(self, heard: Callable[[str], object]) -> None:
        """Call `heard` with the word, in a thread of its own, each time that somebody rings, until this is closed.

        Once it listens it is called without a word: what was told before that is not heard any more.
        """
        if self._url is not None:
            self._thread = threading.Thread(target=self._listen_on, args=(heard,), name="bell", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Listen no more, and let go of the broker."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(LISTEN_FOR * 2 + ANSWER_TIMEOUT)
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _connected(self) -> Any:
        from redis import Redis

        with self._lock:
            if self._client is None:
                assert self._url is not None
                timeouts = {"socket_timeout": ANSWER_TIMEOUT, "socket_connect_timeout": ANSWER_TIMEOUT}
                self._client = Redis.from_url(self._url, **timeouts)
            return self._client

    def _listen_on(self, heard: Callable[[str], object]) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            with suppress(Exception):  # the broker is away: whoever listens looks by itself now and then
                self._listen_once(heard)
            self._stopping.wait(max(0.0, AGAIN_AFTER - (time.monotonic() - began)))

    def _listen_once(self, heard: Callable[[str], object]) -> None:
        with self._connected().pubsub(ignore_subscribe_messages=True) as messages:
            messages.subscribe(self._name)
            heard("")
            while not self._stopping.is_set():
                if (message := messages.get_message(timeout=LISTEN_FOR)) is not None:
                    heard(message["data"].decode(errors="replace"))
