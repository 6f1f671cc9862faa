"""Orphans go, everything else stays: asked of the rule, and of real sandboxes."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from orchestrator.controller import reap
from orchestrator.controller.loop import Loop
from orchestrator.controller.reap import Reaper
from orchestrator.runs.controlling import ControlRecord
from orchestrator.runs.keeping import Owner, is_orphan
from orchestrator.runs.labels import ATTEMPT_LABEL, INSTALLATION_LABEL, RUN_LABEL, sandbox_labels
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.store import Store
from sandboxes.errors import ProviderUnavailable, SandboxError
from sandboxes.providers.base import SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.providers.docker import DockerProvider
from sandboxes.providers.local import LocalProvider

US = "0123456789abcdef"


def handle(labels: Mapping[str, str], sandbox_id: str = "sbx-0000000000000001") -> SandboxHandle:
    return SandboxHandle("local", sandbox_id, labels)


OURS = sandbox_labels(US, "run-a", 2)
RUNNING = Owner(ended=False, attempt=2, sandbox_id=None)


@pytest.mark.parametrize(
    ("labels", "owner", "orphan"),
    [
        (OURS, None, True),
        (OURS, Owner(ended=True, attempt=2, sandbox_id=None), True),
        (OURS, Owner(ended=False, attempt=3, sandbox_id=None), True),
        (OURS, Owner(ended=False, attempt=3, sandbox_id="sbx-0000000000000002"), True),
        (OURS, RUNNING, False),
        (OURS, Owner(ended=False, attempt=3, sandbox_id="sbx-0000000000000001"), False),
        ({**OURS, INSTALLATION_LABEL: "fedcba9876543210"}, None, False),
        ({RUN_LABEL: "run-a", ATTEMPT_LABEL: "1"}, None, False),
        ({INSTALLATION_LABEL: US}, None, False),
        ({INSTALLATION_LABEL: US, RUN_LABEL: "run-a"}, RUNNING, False),
        ({**OURS, ATTEMPT_LABEL: "-1"}, RUNNING, False),
        ({**OURS, ATTEMPT_LABEL: "\N{SUPERSCRIPT ONE}"}, RUNNING, False),
        ({}, None, False),
    ],
)
def test_what_counts_as_an_orphan(labels: Mapping[str, str], owner: Owner | None, orphan: bool) -> None:
    assert is_orphan(handle(labels), US, owner) is orphan


def test_what_somebody_keeps_is_no_orphan() -> None:
    assert not is_orphan(handle(OURS), US, None, kept=True)


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ff-") as folder:  # short, because a socket's path must be
        yield Path(folder)


async def test_only_the_orphans_of_this_installation_are_destroyed(store: Store, record: ControlRecord, home: Path) -> None:
    us = store.installation()
    for run_id in ("run-live", "run-ended", "run-retried"):
        store.add(NewRun(run_id, "name", {}))
        lease = store.claim(run_id, "w")
        assert lease is not None
        if run_id == "run-ended":
            store.finish(lease, RunStatus.SUCCESS)
    provider, made = LocalProvider(home), {}
    wanted = {
        "live": sandbox_labels(us, "run-live", 1),
        "of another installation": sandbox_labels("fedcba9876543210", "run-ended", 1),
        "without an installation": {RUN_LABEL: "run-ended", ATTEMPT_LABEL: "1"},
        "without a label": {},
        "ended": sandbox_labels(us, "run-ended", 1),
        "gone from the record": sandbox_labels(us, "run-gone", 1),
        "superseded": sandbox_labels(us, "run-retried", 0),
    }
    try:
        for name, labels in wanted.items():
            made[(await provider.create(SandboxSpec(), labels)).id] = name
        await Reaper(record, lambda: LocalProvider(home)).round()
        left = {made[found.id] for found in await provider.find()}
        assert left == {"live", "of another installation", "without an installation", "without a label"}
    finally:
        for found in await provider.find():
            await provider.destroy(found)


async def test_one_that_somebody_keeps_stays_until_it_is_let_go(record: ControlRecord, home: Path) -> None:
    provider, labels = LocalProvider(home), sandbox_labels(record.installation(), "run-gone", 1)
    try:
        kept = await provider.create(SandboxSpec(), labels)
        record.keep(kept.id, "run-gone", 60.0)
        await Reaper(record, lambda: LocalProvider(home)).round()
        assert [found.id for found in await provider.find()] == [kept.id]
        record.let_go(kept.id)
        await Reaper(record, lambda: LocalProvider(home)).round()
        assert await provider.find() == []
    finally:
        for found in await provider.find():
            await provider.destroy(found)


class Stubborn(LocalProvider):
    """Finds sandboxes whatever is asked for, and cannot end the first one."""

    def __init__(self, home: Path, found: list[SandboxHandle]) -> None:
        super().__init__(home)
        self.found = found
        self.destroyed: list[str] = []

    async def find(self, labels: Mapping[str, str] | None = None) -> list[SandboxHandle]:
        return self.found

    async def destroy(self, handle: SandboxHandle) -> None:
        if handle is self.found[0]:
            raise SandboxError("it does not end")
        self.destroyed.append(handle.id)


async def test_one_that_cannot_be_destroyed_is_told_after_the_others_are(record: ControlRecord, home: Path) -> None:
    labels = sandbox_labels(record.installation(), "run-gone", 1)
    stubborn = Stubborn(home, [handle(labels, f"sbx-{n}") for n in range(3)])
    with pytest.raises(SandboxError, match="it does not end"):
        await Reaper(record, lambda: stubborn).round()
    assert stubborn.destroyed == ["sbx-1", "sbx-2"]


async def test_a_provider_that_does_not_filter_costs_nobody_a_sandbox(record: ControlRecord, home: Path) -> None:
    foreign = Stubborn(home, [handle({}), handle(sandbox_labels("fedcba9876543210", "run-gone", 1))])
    await Reaper(record, lambda: foreign).round()
    assert foreign.destroyed == []


class Sweeping(LocalProvider):
    """Counts how often it was swept."""

    sweeps = 0

    async def sweep(self) -> None:
        self.sweeps += 1


@pytest.mark.parametrize(("every", "sweeps"), [(reap.SWEEP_EVERY, 1), (0.0, 3)])
async def test_what_is_no_sandbox_is_swept_at_first_and_then_now_and_then(
    record: ControlRecord, home: Path, monkeypatch: pytest.MonkeyPatch, every: float, sweeps: int
) -> None:
    monkeypatch.setattr(reap, "SWEEP_EVERY", every)
    provider = Sweeping(home)
    reaper = Reaper(record, lambda: provider)
    for _ in range(3):
        await reaper.round()
    assert provider.sweeps == sweeps


def test_a_provider_that_cannot_be_reached_is_told_once_and_tried_again(
    record: ControlRecord, home: Path, until, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[int] = []

    def away() -> SandboxProvider:
        tries.append(1)
        return DockerProvider(base_url=f"unix://{home}/nothing.sock")

    loop = Loop("reap docker", Reaper(record, away).look, seconds=0.01, slowest=0.02)
    with caplog.at_level(logging.INFO):
        loop.start()
        until(lambda: len(tries) > 2)
        loop.stop()
    (told,) = caplog.records
    assert told.message.startswith(f"reap docker: {ProviderUnavailable.__name__}: ")
    assert told.exc_info is None
