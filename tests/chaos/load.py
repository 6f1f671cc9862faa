"""Submitting runs through the API, whatever happens to it: each request is repeated until it is heard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TypeVar

from orchestrator.client import Client
from orchestrator.errors import Conflict, FanfoldError, InfrastructureError
from orchestrator.runs.models import RunStatus
from orchestrator.spec import RunSpec
from tests.chaos.agents import Work
from tests.chaos.world import World

T = TypeVar("T")
AT_ONCE = 32
"""Requests at the same time."""
PAUSE = 0.3
"""Seconds after a request that failed."""
PATIENCE = 180.0
"""Seconds for one request to succeed, with all its repetitions."""
TIMEOUT = 10.0
"""Seconds for one answer."""


class Load:
    """The runs of one trial. Close it when done."""

    def __init__(self, world: World, works: Sequence[Work], seconds: float) -> None:
        """They are submitted evenly over so many seconds."""
        self.works = works
        self.accepted: dict[int, str] = {}
        """The id that the API gave to each work, by its number."""
        self.refused: list[str] = []
        """What went wrong and may not."""
        self.repeated = 0
        """Requests that had to be repeated."""
        self._world = world
        self._seconds = seconds
        self._lock = threading.Lock()
        self._clients = [Client(url, world.key, timeout=TIMEOUT) for url in world.addresses]
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="load")
        self._began = time.monotonic()

    def begin(self) -> None:
        """Submit, in threads."""
        self._began = time.monotonic()
        self._all = [self._pool.submit(self._bring, number) for number in range(len(self.works))]

    def finish(self) -> None:
        """Wait until every run was accepted, or refused."""
        wait(self._all)
        for one in self._all:
            one.result()

    def close(self) -> None:
        """Let go of the connections."""
        self._pool.shutdown(cancel_futures=True)
        for client in self._clients:
            client.close()

    def _bring(self, number: int) -> None:
        work = self.works[number]
        time.sleep(max(0.0, self._began + self._seconds * number / len(self.works) - time.monotonic()))
        try:
            run_id = self._submit(number, work)
            with self._lock:
                self.accepted[number] = run_id
            if work.questions:
                self._answer(run_id)
            if work.cancel_after is not None:
                time.sleep(work.cancel_after)
                self._surely(lambda client: client.runs.cancel(run_id))
        except FanfoldError as exc:
            with self._lock:
                self.refused.append(f"work {number} ({work.kind}): {type(exc).__name__}: {exc}")

    def _submit(self, number: int, work: Work) -> str:
        folder = self._world.folder / "scripts" / str(number)
        folder.mkdir(parents=True)
        if work.script is not None:
            (folder / "script.yaml").write_text(work.script)
        spec = RunSpec.model_validate(work.task)
        order = self._surely(lambda client: client.runs.prepare(spec, base_dir=folder))
        return self._surely(lambda client: client.runs.submit(order, idempotency_key=f"work-{number}")).id

    def _answer(self, run_id: str) -> None:
        """Be the person who allows all that is asked, until the run has ended."""
        while not (run := self._surely(lambda client: client.runs.get(run_id))).status.terminal:
            if run.status is RunStatus.INTERRUPTED:
                with suppress(Conflict):  # an earlier answer was heard after all
                    self._surely(lambda client: client.runs.decide(run_id, [{"type": "approve"}]))
            time.sleep(PAUSE)

    def _surely(self, ask: Callable[[Client], T]) -> T:
        """Ask one server after the other until one answers. Raises what is no matter of the infrastructure."""
        deadline = time.monotonic() + PATIENCE
        for client in self._in_turn():
            try:
                return ask(client)
            except InfrastructureError:
                with self._lock:
                    self.repeated += 1
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)
        raise AssertionError

    def _in_turn(self) -> Iterator[Client]:
        while True:
            yield from self._clients
