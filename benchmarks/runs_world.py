"""An installation to measure: its record, its broker, its workers and its API, in a folder of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from orchestrator.broker import Broker
from orchestrator.service import Service
from orchestrator.settings import Settings
from tests.services import PostgresServer, postgres_programs

DEADLINE = 120.0
"""Seconds for anything here to come up, and to end."""
TIMEOUT = 300.0
"""Seconds for any answer."""
POLL = 0.02
"""Seconds between two looks."""
LOG = "benchmark.log"
"""What the programs of a folder say."""
ANSWER = "turns: [{text: done}]\n"
"""The script of a model that answers at once."""
WAITING = "turns: [{tool_calls: [{name: execute, args: {command: sleep 600}}]}, {text: done}]\n"
"""The script of a model whose agent waits for a command."""


@dataclass(frozen=True)
class World:
    """What is measured. It is gone at the end of `world`."""

    name: str
    settings: Settings
    service: Service
    url: str
    """Of the API."""
    key: str
    """Of the API."""
    workers: tuple[int, ...]
    """Process ids."""
    api: int
    """Process id."""
    variables: Mapping[str, str]
    """Of the environment of its processes."""

    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.key}"}


def command_task() -> dict[str, Any]:
    """The body of a run of `true` in a local sandbox."""
    return {"task": {"name": "noop", "command": "true", "sandbox": {"provider": "local"}}}


def agent_task(upload: str) -> dict[str, Any]:
    """The body of a run of an agent with the script that was uploaded."""
    agent = {"prompt": "Say that you are done.", "model": "scripted:script.yaml"}
    return {"task": {"name": "noop", "agent": agent, "sandbox": {"provider": "local"}}, "uploads": {"model": upload}}


def ok(response: httpx.Response) -> Any:
    """What an answer says. Raises `RuntimeError` for one that is a failure."""
    if not response.is_success:
        raise RuntimeError(f"a measured call failed: {response.status_code}: {response.text[:500]}")
    return response.json()


def free_port() -> int:
    """A port of the loopback address that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for `condition`. Raises `RuntimeError` when it does not come true."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {DEADLINE:.0f} s in vain until {what}")
        time.sleep(POLL)


def listens(port: int) -> bool:
    """Whether somebody does."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextmanager
def world(*, served: bool, workers: int, concurrency: int) -> Iterator[World]:
    """An installation: PostgreSQL, which writes to its disk, and Redis when it is `served`; SQLite and Valkey otherwise."""
    with ExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="ff-bench-"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        variables = {"FANFOLD_HOME": str(home), "FANFOLD_LOG_LEVEL": "warning"}
        if served:
            variables |= stack.enter_context(_servers())
        settings = Settings(**{name.removeprefix("FANFOLD_").lower(): value for name, value in variables.items()})
        service = stack.enter_context(Service(settings))
        service.check()
        stack.callback(Broker(settings).stop)
        key = service.keys.create("benchmark", ("admin",)).text
        api, url = stack.enter_context(serving(home, variables))
        command = [sys.executable, "-m", "orchestrator.worker", "--concurrency", str(concurrency)]
        processes = [stack.enter_context(started(command, home, variables)) for _ in range(workers)]
        wait_until(lambda: len(service.workers()) == workers, "the workers are there")
        name = "PostgreSQL, Redis" if served else "SQLite, Valkey"
        pids = tuple(one.pid for one in processes)
        yield World(name, settings, service, url, key, pids, api, variables)


@contextmanager
def serving(home: Path, variables: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """A process of the API, and its address, when it listens."""
    port = free_port()
    command = [sys.executable, "-m", "orchestrator.cli.main", "api", "--port", str(port)]
    with started(command, home, variables) as process:
        wait_until(lambda: listens(port), "the API is there")
        yield process.pid, f"http://127.0.0.1:{port}"


@contextmanager
def started(
    command: list[str], folder: Path, variables: Mapping[str, str], *, inside: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """A program, ended in the end; `inside` the folder or here. What it says is in a file of the folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FANFOLD_")}
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            command, env={**environment, **variables}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd=folder if inside else None,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _servers() -> Iterator[dict[str, str]]:
    """A PostgreSQL server and a Redis server of this benchmark's own, as variables of the environment."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="ff-pg-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = PostgresServer(folder, durable=True)
        server.make()
        server.start()
        stack.callback(server.stop)
        database = stack.enter_context(server.fresh_database()).render_as_string(hide_password=False)
        port = free_port()
        redis = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        stack.enter_context(started([*redis, "--dir", str(folder.parent)], Path(tempfile.gettempdir()), {}))
        wait_until(lambda: listens(port), "Redis answers")
        yield {"FANFOLD_DATABASE_URL": database, "FANFOLD_REDIS_URL": f"redis://127.0.0.1:{port}/0"}


def can_serve() -> bool:
    """Whether the programs of both servers are installed."""
    try:
        postgres_programs()
    except BaseException:  # what a test would skip for
        return False
    return shutil.which("redis-server") is not None
