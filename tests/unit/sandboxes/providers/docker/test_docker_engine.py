"""Blocking calls to an engine: as many at once as there is room for, and none that keeps the process."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sandboxes.errors import ProviderUnavailable
from sandboxes.providers.docker.engine import REQUEST_SECONDS, THREADS, Engine

ASKS_AND_LEAVES = """
import asyncio, sys
from sandboxes.providers.docker.engine import Engine

async def ask():
    engine = Engine("unix://" + sys.argv[1])
    async with asyncio.timeout(0.5):
        await engine.run("tell its version", lambda: engine.api)

try:
    asyncio.run(ask())
except TimeoutError:
    print("left")
"""


def test_a_process_ends_though_the_engine_that_it_has_asked_is_silent(tmp_path: Path) -> None:
    address = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(address))
        silent.listen()
        command = [sys.executable, "-c", ASKS_AND_LEAVES, str(address)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=REQUEST_SECONDS / 2)
    assert done.stdout == "left\n"


async def test_no_more_calls_are_under_way_than_there_is_room_for_and_one_that_nobody_waits_for_is_not_begun() -> None:
    engine, begun, may_end = Engine(), threading.Semaphore(0), threading.Event()
    calls: list[int] = []

    def call(number: int) -> int:
        calls.append(number)
        begun.release()
        assert may_end.wait(REQUEST_SECONDS)
        return number

    under_way = [asyncio.create_task(engine.run("wait", call, number)) for number in range(THREADS)]
    for _ in under_way:
        await asyncio.to_thread(begun.acquire)
    given_up, patient = (asyncio.create_task(engine.run("wait", call, THREADS + number)) for number in range(2))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    assert sorted(calls) == list(range(THREADS))
    may_end.set()
    assert await asyncio.gather(*under_way, patient) == [*range(THREADS), THREADS + 1]
    assert sorted(calls) == [*range(THREADS), THREADS + 1]


async def test_what_the_sdk_raises_comes_out_in_our_words(tmp_path: Path) -> None:
    engine = Engine(f"unix://{tmp_path / 'nobody.sock'}")
    with pytest.raises(ProviderUnavailable, match="no Docker engine answers"):
        await engine.run("tell its version", lambda: engine.api)
