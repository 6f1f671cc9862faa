"""An installation of many processes, each with a network of its own to the servers: what the monkey disturbs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from sqlalchemy import select

from orchestrator.errors import InfrastructureError
from orchestrator.runs import tables
from orchestrator.runs.labels import INSTALLATION_LABEL
from orchestrator.runs.models import RunStatus
from orchestrator.service import Service
from orchestrator.settings import Settings
from sandboxes.portal import portal
from sandboxes.providers.base import SandboxHandle
from sandboxes.providers.registry import get_provider
from tests.chaos.proxy import Link, Network
from tests.chaos.servers import Postgres, Redis
from tests.conftest import IMAGES

DEADLINE = 60.0
"""Seconds for a process to come up, and to end."""
KEEP_EVERY = 0.2
"""Seconds between two looks whether a process has ended by itself."""
YOUNG = 30.0
"""Seconds within which a process may find that there is no record or no broker, and end: who keeps it starts it again."""
CANNOT_BEGIN = 3
"""Its exit code then."""


@dataclass(frozen=True)
class Size:
    """How many processes there are."""

    workers: int = 2
    controllers: int = 2
    apis: int = 1
    concurrency: int = 6
    """Runs that each worker executes at once."""
    persistent: bool = True
    """Whether Redis keeps its data on disk."""


@dataclass(frozen=True)
class Death:
    """A process that ended though nobody had told it to."""

    node: str
    exit_code: int
    lived: float
    """Seconds."""

    @property
    def excused(self) -> bool:
        """Whether it could not begin, because a server was away."""
        return self.exit_code == CANNOT_BEGIN and self.lived < YOUNG


class Node:
    """One process under test. Its methods may be called from any thread."""

    def __init__(self, name: str, command: Sequence[str], environ: Mapping[str, str], log: Path, links: Sequence[Link]) -> None:
        self.name = name
        self.log = log
        self.record, self.broker = links
        """Its ways to PostgreSQL and to Redis."""
        self.deaths: list[Death] = []
        self.starts = 0
        self._command = command
        self._environ = environ
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._leaving: list[subprocess.Popen[bytes]] = []
        self._since = 0.0

    @property
    def pid(self) -> int | None:
        """Of its process; None while there is none."""
        with self._lock:
            return self._process.pid if self._process is not None else None

    def up(self) -> None:
        """Start it when it is not there."""
        with self._lock:
            if self._process is not None:
                return
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(self._command, env=dict(self._environ), stdout=log, stderr=log)
            self._since = time.monotonic()
            self.starts += 1

    def kill(self) -> None:
        """SIGKILL."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait(DEADLINE)
                self._process = None

    def leave(self) -> None:
        """SIGTERM: it goes in peace, and `up` starts another one, meanwhile or later."""
        with self._lock:
            if self._process is not None:
                self._process.send_signal(signal.SIGTERM)
                self._leaving.append(self._process)
                self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Send it, to those that are leaving as well."""
        with self._lock:
            for process in [*self._leaving, *([self._process] if self._process else [])]:
                with suppress(ProcessLookupError):
                    process.send_signal(number)

    def keep(self) -> None:
        """When it has ended by itself, take note and start it again."""
        with self._lock:
            if self._process is not None and (code := self._process.poll()) is not None:
                self.deaths.append(Death(self.name, code, time.monotonic() - self._since))
                self._process = None
                self.up()

    def heal(self) -> None:
        """Undo all that was done to it."""
        self.record.heal()
        self.broker.heal()
        self.signal(signal.SIGCONT)
        self.up()

    def stuck(self) -> list[int]:
        """Ids of processes that were told to leave and have not left."""
        with self._lock:
            return [process.pid for process in self._leaving if process.poll() is None]

    def end(self) -> None:
        """SIGKILL to all that is left."""
        with self._lock:
            for process in self._leaving:
                process.kill()
                process.wait(DEADLINE)
            self.kill()


class World:
    """See `making`."""

    def __init__(self, folder: Path, postgres: Postgres, redis: Redis, network: Network, size: Size) -> None:
        self.folder = folder
        self.postgres = postgres
        self.redis = redis
        self.home = folder / "home"
        self.settings = Settings(
            home=self.home, database_url=self._address(None), redis_url=f"redis://127.0.0.1:{redis.port}/0"
        )
        self.home.mkdir(mode=0o700)
        self.service = Service(self.settings)
        """A door of our own, past the network that is disturbed."""
        self.key = self.service.keys.create("chaos", ("admin",)).text
        with self.service._of.engine.connect() as connection:
            self._installation = connection.execute(select(tables.installation.c.id)).scalar_one()
        self._network = network
        ports = [_free_port() for _ in range(size.apis)]
        self.addresses = [f"http://127.0.0.1:{port}" for port in ports]
        self.workers = [self._node(f"worker{n}", "worker", "-c", str(size.concurrency)) for n in range(size.workers)]
        self.controllers = [self._node(f"controller{n}", "controller") for n in range(size.controllers)]
        self.apis = [self._node(f"api{n}", "api", "--port", str(port)) for n, port in enumerate(ports)]
        self._ending = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)

    @property
    def nodes(self) -> list[Node]:
        """All processes under test."""
        return [*self.workers, *self.controllers, *self.apis]

    def begin(self) -> None:
        """Start everything, and wait until runs can be submitted and a worker is there."""
        for node in self.nodes:
            node.up()
        self._keeper.start()
        wait_until(lambda: all(_answers(f"{url}/readyz") for url in self.addresses), "the API answers")
        wait_until(lambda: len(self.service.workers()) >= len(self.workers), "the workers are there")

    def heal(self) -> None:
        """Undo every disturbance."""
        self.postgres.signal(signal.SIGCONT)
        self.postgres.up()
        self.redis.signal(signal.SIGCONT)
        self.redis.up()
        for node in self.nodes:
            node.heal()

    def kill_with_sandbox(self, worker: Node, target: int) -> None:
        """Kill a worker, and destroy the sandbox of one of its runs before another worker takes that up."""
        pid = worker.pid
        worker.kill()
        with suppress(InfrastructureError):  # the record is away as well: then it is only the worker
            runs = self.service.list(RunStatus.RUNNING, limit=1000)
            handles = [run.sandbox for run in runs if run.sandbox and run.worker and run.worker.split(":")[1] == str(pid)]
            if handles:
                self.destroy(SandboxHandle.from_json(handles[target % len(handles)]))

    def sandboxes(self, provider: str = "local") -> list[SandboxHandle]:
        """The sandboxes of this installation."""
        return list(portal.run(self._find(provider)))

    def destroy(self, handle: SandboxHandle) -> None:
        """Have a sandbox be gone."""
        portal.run(self._destroy(handle))

    def end(self) -> None:
        """End everything, also what should not be there any more."""
        self._ending.set()
        if self._keeper.is_alive():
            self._keeper.join(DEADLINE)
        for node in self.nodes:
            node.end()
        self.postgres.signal(signal.SIGCONT)
        self.postgres.up()
        for provider in ("local", "docker"):
            with suppress(Exception):  # there need be no engine
                for handle in self.sandboxes(provider):
                    self.destroy(handle)
        self.service.close()

    async def _find(self, provider: str) -> Sequence[SandboxHandle]:
        opened = get_provider(provider, home=self.home)
        try:
            return await opened.find({INSTALLATION_LABEL: self._installation})
        finally:
            await opened.aclose()

    async def _destroy(self, handle: SandboxHandle) -> None:
        opened = get_provider(handle.provider, home=self.home)
        try:
            await opened.destroy(handle)
        finally:
            await opened.aclose()

    def _keep(self) -> None:
        while not self._ending.wait(KEEP_EVERY):
            for node in self.nodes:
                node.keep()

    def _node(self, name: str, *arguments: str) -> Node:
        record, broker = self._network.link(self.postgres.socket), self._network.link(self.redis.port)
        environ = {key: value for key, value in os.environ.items() if not key.startswith("FANFOLD_")} | {
            "FANFOLD_HOME": str(self.home),
            "FANFOLD_DATABASE_URL": self._address(record.port),
            "FANFOLD_REDIS_URL": f"redis://127.0.0.1:{broker.port}/0",
            "FANFOLD_LOG_FORMAT": "console",
            "FANFOLD_DOCKER_IMAGE": IMAGES[0],
        }
        command = [str(Path(sys.executable).with_name("fanfold")), *arguments]
        return Node(name, command, environ, self.folder / f"{name}.log", (record, broker))

    def _address(self, port: int | None) -> str:
        """Of the record: through a link, or past all of them."""
        place = f"127.0.0.1:{port}/postgres" if port else f"/postgres?host={self.postgres.socket.parent}"
        return f"postgresql+psycopg://fanfold@{place}"


@contextmanager
def making(size: Size, *, folder: Path | None = None) -> Iterator[World]:
    """A world that is gone afterwards, but for its logs when there is a `folder` for them."""
    root = Path(tempfile.mkdtemp(prefix="ff-chaos-"))
    root.chmod(0o755)  # PostgreSQL may run as another user
    network, data = Network(), root / "pg"
    data.mkdir()
    postgres, redis = Postgres(data), Redis(root, persistent=size.persistent)
    try:
        postgres.make()
        postgres.up()
        redis.up()
        world = World(root, postgres, redis, network, size)
        try:
            world.begin()
            yield world
        finally:
            world.end()
    finally:
        redis.signal(signal.SIGCONT)
        redis.kill()
        postgres.stop()
        network.close()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for log in [*root.glob("*.log"), data / "log"]:
                shutil.copy(log, folder / log.name)
        shutil.rmtree(root, ignore_errors=True)


def wait_until(condition: Callable[[], object], what: str, seconds: float = DEADLINE) -> None:
    """Wait for `condition`; fail when it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain until {what}"
        time.sleep(0.05)


def _answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(url, timeout=5.0, trust_env=False).is_success
    return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
