"""The real `fanfold` command, each time as a process of its own, with a home of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orchestrator.models import MODEL_KEYS
from orchestrator.service import Service
from orchestrator.settings import Settings
from sandboxes.providers.registry import get_provider
from tests.served import serving

COMMAND = (sys.executable, "-m", "orchestrator.cli.main")
DEADLINE = 60.0
"""Seconds for one command, and for a condition to come true."""
TEST_IMAGE = "fanfold-test/base:latest"
KEYS = {name for names in MODEL_KEYS.values() for name in names}


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE:g} s: {what}")
        time.sleep(0.02)


@dataclass
class Fanfold:
    """The command line over one home."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        """This process's, without what would change the outcome."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FANFOLD_") and key not in KEYS}
        return {**kept, "FANFOLD_HOME": str(self.home), **self.environ, **more}

    def __call__(self, *arguments: str | Path, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            [*COMMAND, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd,
            env=self.environment(**environ),
            stdin=subprocess.DEVNULL,
            timeout=DEADLINE,
        )

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start it."""
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
        )

    def sandboxes(self) -> list[str]:
        """Ids of the local sandboxes that are left."""
        return [handle.id for handle in asyncio.run(get_provider("local", home=self.home).find())]

    def stop(self) -> None:
        """End the worker and the broker that were started here: the worker by its own pid, which it wrote down."""
        with Service(Settings(home=self.home)) as service:
            for worker in service.workers():
                os.kill(worker.pid, signal.SIGTERM)
            until(lambda: not service.workers(), "the worker has left")
            service._of.broker.stop()


def _home() -> Path:
    return Path(tempfile.mkdtemp(prefix="fanfold-test-"))


def _with_home(environ: dict[str, str]) -> Iterator[Fanfold]:
    fanfold = Fanfold(_home(), environ)
    try:
        yield fanfold
    finally:
        fanfold.stop()
        shutil.rmtree(fanfold.home, ignore_errors=True)


@pytest.fixture(scope="module")
def shared() -> Iterator[Fanfold]:
    """One home, and so one worker, for the tests of a module."""
    yield from _with_home({"FANFOLD_DOCKER_IMAGE": TEST_IMAGE})


@pytest.fixture
def fanfold(shared: Fanfold) -> Iterator[Fanfold]:
    """The command line; whatever a test did, no sandbox may be left."""
    yield shared
    assert shared.sandboxes() == []


@pytest.fixture(scope="module")
def served(shared: Fanfold, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fanfold]:
    """The command line of somebody who has an API's address and a key: what runs there runs in the shared home."""
    nowhere = tmp_path_factory.mktemp("client") / "home"
    assert shared("exec", "true").returncode == 0  # and the shared home has a worker
    with Service(Settings(home=shared.home, docker_image=TEST_IMAGE)) as service, serving(service) as api:
        yield Fanfold(shared.home, {"FANFOLD_HOME": str(nowhere), "FANFOLD_URL": api.url, "FANFOLD_API_KEY": api.key})
    assert not nowhere.exists()


@pytest.fixture(params=["here", "over the API"])
def anywhere(request: pytest.FixtureRequest) -> Iterator[Fanfold]:
    """The command line on this machine, and then on an API; whatever a test did, no sandbox may be left."""
    fanfold: Fanfold = request.getfixturevalue("shared" if request.param == "here" else "served")
    yield fanfold
    assert fanfold.sandboxes() == []


@pytest.fixture
def without_docker(tmp_path: Path) -> Iterator[Fanfold]:
    """The command line of somebody whose Docker does not run."""
    yield from _with_home({"DOCKER_HOST": f"unix://{tmp_path}/no.sock"})


@pytest.fixture
def task(tmp_path: Path) -> Callable[..., Path]:
    """`task(text, **files)`: a task file, with other files beside it."""

    def write(text: str, **files: str) -> Path:
        for name, content in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        path = tmp_path / "task.yaml"
        path.write_text(text)
        return path

    return write
