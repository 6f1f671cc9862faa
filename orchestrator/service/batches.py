"""Batches: many runs that are submitted in one call, and followed and cancelled together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Literal

from pydantic import ValidationError

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.runs.batches import Batch, NewBatch, new_batch_id
from orchestrator.runs.batches import Batches as BatchRecord
from orchestrator.runs.models import NewRun
from orchestrator.runs.threads import Multitask, check_talks
from orchestrator.runs.threads import Threads as ThreadRecord
from orchestrator.service.installation import Installation
from orchestrator.service.orders import RunOrder
from orchestrator.service.paging import Page, page_of
from orchestrator.service.preparing import Preparing
from orchestrator.service.staging import Staging

Mode = Literal["atomic", "partial"]
"""`atomic` records nothing when a line is wrong; `partial` records the others."""

MAX_RUNS = 10_000
"""Runs of a batch."""
MAX_LINE = 2 * 1024**2
"""Bytes of a line."""
MAX_ERRORS = 100
"""Lines that are told to be wrong; the others are counted."""
MAX_FAULTS = 5
"""Faults of one line that are told."""
MAX_DETAIL = 1000
"""Characters that are told of one line."""
MAX_NAME = 100
"""Characters of a batch's name."""


@dataclass(frozen=True)
class LineError:
    """Why a line was not taken."""

    line: int
    """Counted from 1, blank lines too."""
    detail: str


@dataclass(frozen=True)
class Submitted:
    """What became of a batch."""

    batch: Batch
    errors: Sequence[LineError] = ()
    """The first of the lines that were not taken."""


class BatchRefused(BadInput):
    """Lines of a batch were wrong, and nothing was recorded."""

    def __init__(self, errors: Sequence[LineError], count: int) -> None:
        """`errors` are the first of `count`."""
        first = errors[0]
        super().__init__(
            f"{count} {'line' if count == 1 else 'lines'} cannot be taken, and nothing was recorded;"
            f" the first is line {first.line}: {first.detail}"
        )
        self.errors = errors


class Batches:
    """The batches of one tenant."""

    def __init__(self, installation: Installation, tenant: str) -> None:
        self._of = installation
        self._tenant = tenant

    @cached_property
    def _record(self) -> BatchRecord:
        return BatchRecord(self._of.engine)

    def submit(
        self, lines: Iterable[bytes], *, mode: Mode = "atomic", name: str = "batch", batch_id: str | None = None
    ) -> Submitted:
        """Submit a run for each line, a `RunOrder` as JSON; blank lines are none. They wait in the order of the lines.

        The strategy of a run in a thread can only be `enqueue`. Raises `BatchRefused`, and for the batch as a whole
        `BadInput` (no runs, or more than `MAX_RUNS`), `QuotaExceeded` or `InfrastructureError`; then nothing was recorded.
        """
        if len(name) > MAX_NAME or not name.isprintable():
            raise BadInput(f"name: at most {MAX_NAME} printable characters")
        draft = self._draft(lines, mode, batch_id or new_batch_id())
        try:
            added = self._of.dispatching.add_many(draft.runs, NewBatch(draft.batch_id, self._tenant, name, len(draft.runs)))
        except BadInput:  # after any other error they may be in the record all the same
            draft.drop()
            raise
        with suppress(InfrastructureError):  # they are in the record: a controller sends them when the broker is back
            self._of.send(added)
        return Submitted(self.get(draft.batch_id), draft.errors)

    def _draft(self, lines: Iterable[bytes], mode: Mode, batch_id: str) -> _Draft:
        """The batch with all that its runs need. When this raises, nothing is left."""
        draft = _Draft(self._of, self._tenant, batch_id)
        try:
            draft.read(lines)
            if draft.count and (mode == "atomic" or not draft.runs):
                raise BatchRefused(draft.errors, draft.count)
            if not draft.runs:
                raise BadInput("the batch is empty: send a run as JSON on each line")
        except BaseException:
            draft.drop()
            raise
        finally:
            draft.staging.close()
        return draft

    def get(self, batch_id: str) -> Batch:
        """The batch with this id, and how far its runs are. Raises `NotFound`."""
        return self._record.get(batch_id, tenant=self._tenant)

    def page(self, limit: int = 50, cursor: str | None = None) -> Page[Batch]:
        """At most `limit` batches, the newest first, beginning where `cursor` says. Raises `BadInput` for a wrong one."""
        return page_of(partial(self._record.page, tenant=self._tenant), limit, cursor)

    def cancel(self, batch_id: str) -> Batch:
        """Ask all runs of a batch to stop; those that have ended stay as they are. Raises `NotFound`."""
        self.get(batch_id)
        asked = True
        while asked:
            count, ended = self._record.cancel_some(batch_id, tenant=self._tenant)
            asked = count > 0
            for run_id in ended:
                self._of.folder(run_id).forget_secrets()
        return self.get(batch_id)


class _Draft:
    """A batch whose lines are being read: its runs are frozen, and none is recorded yet."""

    def __init__(self, installation: Installation, tenant: str, batch_id: str) -> None:
        self.batch_id = batch_id
        self.staging = Staging(installation)
        self.runs: list[NewRun] = []
        self.errors: list[LineError] = []
        self.count = 0
        """Lines that are wrong."""
        self._preparing = Preparing(installation, tenant, self.staging)
        self._threads = ThreadRecord(installation.engine)
        self._tenant = tenant

    def read(self, lines: Iterable[bytes]) -> None:
        """Prepare a run for each line. Raises `BadInput` when there are too many."""
        for number, line in _filled(lines):
            if len(self.runs) + self.count == MAX_RUNS:
                raise BadInput(f"line {number}: a batch has at most {MAX_RUNS:,} runs: send the others as another batch")
            try:
                self.runs.append(self._prepared(line))
            except BadInput as exc:
                self.count += 1
                if len(self.errors) < MAX_ERRORS:
                    self.errors.append(LineError(number, str(exc)[:MAX_DETAIL]))

    def drop(self) -> None:
        """Forget what was frozen."""
        for run in self.runs:
            self._preparing.drop(run)

    def _prepared(self, line: bytes) -> NewRun:
        order = _read_order(line)
        if order.multitask_strategy not in (None, Multitask.ENQUEUE):
            raise BadInput("multitask_strategy: in a batch it can only be 'enqueue': leave it out, or submit this run alone")
        if order.thread_id is not None:
            check_talks(order.task.name, agent=order.task.agent is not None)
            self.staging.once(order.thread_id, partial(self._threads.get, tenant=self._tenant))
        return self._preparing.order(order, batch_id=self.batch_id)


def _filled(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers."""
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())


def _read_order(line: bytes) -> RunOrder:
    if len(line) > MAX_LINE:
        raise BadInput(f"the line is longer than {MAX_LINE:,} bytes: upload what is large in it")
    try:
        return RunOrder.model_validate_json(line)
    except ValidationError as exc:
        # What was given is not repeated: it may be a secret.
        found = [(".".join(map(str, one["loc"])), one["msg"].removeprefix("Value error, ")) for one in exc.errors()]
        raise BadInput("; ".join(f"{place}: {what}" if place else what for place, what in islice(found, MAX_FAULTS))) from exc
