"""Sandboxes of runs can be seen, looked into, kept and ended: by their own tenant, and without their secrets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from orchestrator.controller.reap import Reaper
from orchestrator.errors import BadInput, Conflict, NotFound
from orchestrator.runs.controlling import ControlRecord
from orchestrator.runs.labels import sandbox_labels
from orchestrator.runs.models import Lease, NewRun, RunStatus
from orchestrator.runs.store import Store, new_run_id
from orchestrator.service import Service
from orchestrator.service.looking import MAX_OUTPUT
from orchestrator.settings import Settings
from sandboxes.portal import portal
from sandboxes.providers.base import SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.providers.registry import get_provider

IMAGE = "fanfold-test/base:latest"
SECRET = "hunter2-hunter2"

Make = Callable[..., tuple[SandboxHandle, Lease]]


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def provider(request: pytest.FixtureRequest, settings: Settings) -> Iterator[SandboxProvider]:
    made = get_provider(request.param, home=settings.home)
    yield made
    portal.run(made.aclose())


@pytest.fixture
def make(provider: SandboxProvider, service: Service) -> Iterator[Make]:
    """Makes a run that works in a sandbox, as a worker does."""
    made: list[SandboxHandle] = []
    store = Store(service._of.engine)

    def one(tenant: str = "default", **spec: object) -> tuple[SandboxHandle, Lease]:
        run_id = new_run_id()
        store.add(NewRun(run_id, "name", {"secrets": {"KEY": "${MINE}"}}, tenant=tenant))
        lease = store.claim(run_id, "w")
        assert lease
        fields = {"image": IMAGE if provider.name == "docker" else None, "env": {"KEY": SECRET}, **spec}
        labels = sandbox_labels(store.installation(), run_id, 1)
        handle = portal.run(provider.create(SandboxSpec.model_validate(fields), labels))
        made.append(handle)
        store.set_sandbox(lease, handle.to_json())
        return handle, lease

    yield one
    for handle in made:
        portal.run(provider.destroy(handle))


@pytest.fixture
def finish(service: Service) -> Callable[[Lease], None]:
    def end(lease: Lease) -> None:
        Store(service._of.engine).finish(lease, RunStatus.SUCCESS)

    return end


def reap(service: Service, settings: Settings, provider: SandboxProvider) -> None:
    Reaper(ControlRecord(service._of.engine), partial(get_provider, provider.name, home=settings.home)).look()


def ids(service: Service) -> list[str]:
    return [info.id for info in service.sandboxes.list().items]


def test_a_tenant_sees_the_sandboxes_of_its_own_runs(service: Service, make: Make, provider: SandboxProvider) -> None:
    (mine, lease), (theirs, _) = make(), make(tenant="acme")
    assert ids(service) == [mine.id]
    assert ids(service.of("acme")) == [theirs.id]
    info = service.sandboxes.get(mine.id)
    assert (info.provider, info.run_id, info.attempt, info.state) == (provider.name, lease.run_id, 1, "owned")
    assert info.created_at
    assert info.expires_at
    assert info.expires_at > datetime.now(UTC) > info.created_at - timedelta(seconds=5)


def test_another_tenants_sandbox_is_not_there(service: Service, make: Make) -> None:
    theirs, _ = make(tenant="acme")
    for touch in (
        lambda: service.sandboxes.get(theirs.id),
        lambda: service.sandboxes.destroy(theirs.id, force=True),
        lambda: service.sandboxes.keep(theirs.id, 60.0),
        lambda: service.sandboxes.exec(theirs.id, "true", by="key-1"),
    ):
        with pytest.raises(NotFound, match="there is no sandbox"):
            touch()
    assert service.of("acme").sandboxes.get(theirs.id).kept_until is None


def test_a_sandbox_of_another_installation_is_not_there(service: Service, make: Make, provider: SandboxProvider) -> None:
    _, lease = make()
    image = IMAGE if provider.name == "docker" else None
    foreign = portal.run(provider.create(SandboxSpec(image=image), sandbox_labels("fedcba9876543210", lease.run_id, 1)))
    try:
        assert foreign.id not in ids(service)
    finally:
        portal.run(provider.destroy(foreign))


def test_the_sandbox_of_a_run_that_goes_on_is_ended_by_force_alone(service: Service, make: Make) -> None:
    handle, lease = make()
    with pytest.raises(Conflict, match=f"run {lease.run_id} works in sandbox {handle.id}"):
        service.sandboxes.destroy(handle.id)
    service.sandboxes.destroy(handle.id, force=True)
    with pytest.raises(NotFound):
        service.sandboxes.get(handle.id)


def test_a_kept_sandbox_outlives_its_run_until_it_is_ended(
    service: Service, settings: Settings, make: Make, finish: Callable[[Lease], None], provider: SandboxProvider
) -> None:
    handle, lease = make()
    kept = service.sandboxes.keep(handle.id, 3600.0)
    assert kept.state == "owned"
    finish(lease)
    reap(service, settings, provider)
    info = service.sandboxes.get(handle.id)
    assert info.state == "kept"
    assert info.kept_until == kept.kept_until
    assert service.sandboxes.exec(handle.id, "echo still here", by="key-1").stdout == "still here\n"
    service.sandboxes.destroy(handle.id)
    with pytest.raises(NotFound):
        service.sandboxes.keep(handle.id, 60.0)


def test_what_nobody_keeps_is_an_orphan_and_goes(
    service: Service, settings: Settings, make: Make, finish: Callable[[Lease], None], provider: SandboxProvider
) -> None:
    handle, lease = make()
    finish(lease)
    assert service.sandboxes.get(handle.id).state == "orphan"
    reap(service, settings, provider)
    assert handle.id not in ids(service)


@pytest.mark.parametrize("seconds", [0.0, -1.0, 86401.0, float("nan")])
def test_a_sandbox_is_kept_for_a_day_at_most(service: Service, seconds: float) -> None:
    with pytest.raises(BadInput, match="at most 86400 seconds"):
        service.sandboxes.keep("sbx-0000000000000001", seconds)


def test_a_command_is_run_in_the_sandbox(service: Service, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    handle, _ = make()
    with caplog.at_level(logging.INFO, "fanfold.audit"):
        done = service.sandboxes.exec(handle.id, "echo out; echo err >&2; pwd; exit 3", by="key-0123")
    assert (done.exit_code, done.timed_out, done.truncated) == (3, False, False)
    assert (done.stdout, done.stderr) == ("out\n/workspace\n", "err\n")
    (told,) = caplog.records
    assert f"exec by key-0123 of tenant default in sandbox {handle.id}" in told.getMessage()


def test_a_secret_is_shown_neither_by_the_command_nor_in_the_log(
    service: Service, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    handle, _ = make()
    with caplog.at_level(logging.INFO, "fanfold.audit"):
        done = service.sandboxes.exec(handle.id, f"env; echo $KEY >&2; : {SECRET}", by="key-1")
    assert "KEY=***" in done.stdout
    assert done.stderr == "***\n"
    assert SECRET not in done.stdout + caplog.text
    assert ": ***" in caplog.text


def test_a_secret_that_the_cap_cuts_is_not_shown_by_half(service: Service, make: Make) -> None:
    handle, _ = make()
    before = MAX_OUTPUT - 2
    done = service.sandboxes.exec(handle.id, f"head -c {before} /dev/zero | tr '\\0' x; echo $KEY", by="key-1")
    assert done.truncated
    assert done.stdout[before:] == "**"


def test_what_is_beyond_the_cap_is_not_told(service: Service, make: Make) -> None:
    handle, _ = make()
    done = service.sandboxes.exec(handle.id, f"head -c {3 * MAX_OUTPUT} /dev/zero | tr '\\0' x", by="key-1")
    assert done.truncated
    assert len(done.stdout) == MAX_OUTPUT


def test_a_command_that_does_not_end_is_killed(service: Service, make: Make) -> None:
    handle, _ = make()
    done = service.sandboxes.exec(handle.id, "echo begun; sleep 1000", timeout=1.0, by="key-1")
    assert (done.timed_out, done.exit_code, done.stdout) == (True, 124, "begun\n")
    left = service.sandboxes.exec(handle.id, "cat /proc/[0-9]*/comm", by="key-1").stdout
    assert "sleep" not in left.split()


@pytest.mark.parametrize(
    ("command", "timeout"), [("", 1.0), ("  ", 1.0), ("a\0b", 1.0), ("\udc80", 1.0), ("true", 0.0), ("true", 601.0)]
)
def test_a_command_that_cannot_be_is_refused(service: Service, make: Make, command: str, timeout: float) -> None:
    handle, _ = make()
    with pytest.raises(BadInput):
        service.sandboxes.exec(handle.id, command, timeout=timeout, by="key-1")


def test_a_sandbox_that_has_ended_is_told(service: Service, make: Make, until) -> None:
    handle, _ = make(lifetime=1.0)
    told: list[str] = []

    def ended() -> bool:
        try:
            service.sandboxes.exec(handle.id, "true", by="key-1")
        except (Conflict, NotFound) as exc:
            told.append(str(exc))
        return bool(told)

    until(ended, "the sandbox has ended")
    assert handle.id in told[0]


def test_a_provider_that_cannot_be_reached_is_told_beside_the_others(
    service: Service, make: Make, monkeypatch: pytest.MonkeyPatch, provider: SandboxProvider
) -> None:
    handle, _ = make()
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    listing = service.sandboxes.list()
    assert [info.id for info in listing.items] == ([handle.id] if provider.name == "local" else [])
    assert "docker" in listing.unreachable
    with pytest.raises(NotFound, match="docker cannot be asked"):
        service.sandboxes.get("sbx-0000000000000001")
