"""`python -m benchmarks.dispatch`: what sending one run to a worker costs, by how many wait, of how many tenants.

The record is a file of SQLite, and a PostgreSQL server of its own where its programs are installed. The broker is left out:
sending a message costs the same however many wait. A look that sends one run is what follows each end of a run on a busy
installation; a look that sends a hundred is what follows the start of a large worker.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter

from sqlalchemy import Engine, delete, text

from benchmarks.measure import MILLISECONDS, Config, Row, run
from orchestrator.policy import Policy
from orchestrator.runs import tables as t
from orchestrator.runs.database import now
from orchestrator.runs.dispatching import AT_ONCE, Dispatching
from orchestrator.runs.engine import WRITE
from orchestrator.runs.models import NewRun, RunStatus, WorkerInfo
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from tests.services import postgres_programs, postgres_server

QUEUED = (100, 1_000, 10_000)
TENANTS = 50
SAMPLES = 30
SPEC = {"name": "task", "command": "true", "sandbox": {"provider": "local"}, "text": "x" * 2000}
"""Of about the size that a spec has."""
FLAT = 2.0
"""How much more a run may cost with the longest queue than with the shortest."""


async def bench(config: Config) -> list[Row]:
    """SQLite first, then PostgreSQL."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        rows += _measure("SQLite", f"sqlite:///{folder}/fanfold.db", Path(folder), config)
        with _postgres() as url:
            if url:
                rows += _measure("PostgreSQL", url, Path(folder), config)
    return rows


@contextmanager
def _postgres() -> Iterator[str | None]:
    with ExitStack() as stack:
        try:
            postgres_programs()
        except BaseException:  # its programs are not installed, which a test would skip for
            yield None
            return
        server = stack.enter_context(postgres_server())
        yield stack.enter_context(server.fresh_database()).render_as_string(hide_password=False)


def _measure(name: str, url: str, folder: Path, config: Config) -> list[Row]:
    engine = open_database(url, folder / "lock")
    try:
        one = {queued: _cost(engine, queued, 1, config.rounds(SAMPLES)) for queued in QUEUED}
        many = {queued: _cost(engine, queued, AT_ONCE, 1) for queued in QUEUED}
    finally:
        engine.dispose()
    rows = [Row(f"{name}, {queued} wait: one run", "ms", one[queued]) for queued in QUEUED]
    rows[-1] = Row(rows[-1].what, "ms", one[QUEUED[-1]], below=round(one[QUEUED[0]] * FLAT, 2))
    rows += [Row(f"{name}, {queued} wait: each of {AT_ONCE}", "ms", many[queued]) for queued in QUEUED[1:]]
    return rows


def _cost(engine: Engine, queued: int, limit: int, samples: int) -> float:
    """The median milliseconds for each run that is sent. Those that were sent end in between, and are not measured."""
    store, queue = Store(engine), Dispatching(engine, Policy())
    _clear(engine)
    store.add_many([NewRun(f"run-{n}", "task", SPEC, f"tenant-{n % TENANTS}") for n in range(queued)])
    _analyze(engine)
    moment = now()
    store.worker_alive(WorkerInfo("host:1:abc", "host", 1, max(limit - 1, 4), moment, moment))
    taken = []
    for sample in range(samples + (limit == 1)):
        store.worker_alive(WorkerInfo("host:1:abc", "host", 1, max(limit - 1, 4), moment, now()))
        began = perf_counter()
        sends = queue.dispatch(limit)
        duration = perf_counter() - began
        if len(sends) != min(limit, queued):
            raise RuntimeError(f"{len(sends)} runs were sent, not {limit}")
        if sample or limit > 1:
            taken.append(duration / len(sends))
        for send in sends:
            lease = store.claim(send.run_id, "w")
            assert lease is not None
            store.finish(lease, RunStatus.SUCCESS)
    return statistics.median(taken) * MILLISECONDS


def _clear(engine: Engine) -> None:
    with engine.connect().execution_options(**WRITE) as connection, connection.begin():
        connection.execute(delete(t.runs))


def _analyze(engine: Engine) -> None:
    """What a server does by itself some time after a lot has come in."""
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))


BENCH = {"queue: dispatching, 50 tenants": bench}

if __name__ == "__main__":
    run(BENCH)
