"""With a real worker: runs at work can be looked into, and sandboxes that are kept outlive their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.runs.sandboxes import SandboxInfo
from orchestrator.service import Service
from orchestrator.spec import RunSpec

WAITING = "echo begun; until test -e go; do sleep 0.05; done; cat go"


@pytest.fixture
def cleared(service: Service) -> Iterator[None]:
    """No sandbox is left."""
    yield
    for info in service.sandboxes.list().items:
        service.sandboxes.destroy(info.id, force=True)


@pytest.fixture
def submit(service: Service, tmp_path: Path, cleared: None) -> Callable[..., str]:
    def one(command: str, **sandbox: object) -> str:
        spec = RunSpec.model_validate({"command": command, "sandbox": sandbox, "timeout": 60})
        run_id = service.submit(spec, base_dir=tmp_path).id
        service.ensure_worker()
        return run_id

    return one


def begun(service: Service, run_id: str) -> SandboxInfo:
    """The sandbox of a run whose command has begun."""
    for event in service.follow(run_id):
        if event.type == "command.output":
            break
    (info,) = [info for info in service.sandboxes.list().items if info.run_id == run_id]
    return info


def end_of(service: Service, run_id: str) -> str:
    return next(event.data["status"] for event in service.follow(run_id) if event.type == "run.finished")


def left_by(service: Service, run_id: str) -> list[SandboxInfo]:
    return [info for info in service.sandboxes.list().items if info.run_id == run_id]


def test_a_run_at_work_can_be_looked_into(service: Service, submit: Callable[..., str]) -> None:
    run_id = submit(WAITING)
    info = begun(service, run_id)
    assert info.state == "owned"
    assert service.sandboxes.exec(info.id, "echo from outside > go.part && mv go.part go").exit_code == 0
    assert end_of(service, run_id) == "success"
    told = [event.data["text"] for event in service.events(run_id) if event.type == "command.output"]
    assert "".join(told) == "begun\nfrom outside\n"
    assert left_by(service, run_id) == []


def test_a_sandbox_that_somebody_keeps_outlives_its_run(service: Service, submit: Callable[..., str]) -> None:
    run_id = submit(WAITING)
    info = begun(service, run_id)
    service.sandboxes.keep(info.id, 600.0)
    service.sandboxes.exec(info.id, "touch go")
    assert end_of(service, run_id) == "success"
    (left,) = left_by(service, run_id)
    assert left.state == "kept"
    assert service.sandboxes.exec(left.id, "ls").stdout == "go\n"


@pytest.mark.parametrize(
    ("keep", "command", "kept"),
    [
        ("always", "true", True),
        ("always", "false", True),
        ("on-failure", "false", True),
        ("on-failure", "true", False),
        ("never", "false", False),
    ],
)
def test_a_task_says_whether_its_sandbox_stays(
    service: Service, submit: Callable[..., str], keep: str, command: str, kept: bool
) -> None:
    run_id = submit(command, keep=keep, keep_for="10m")
    end_of(service, run_id)
    assert [info.state for info in left_by(service, run_id)] == (["kept"] if kept else [])


def test_a_run_that_was_cancelled_leaves_no_sandbox_for_its_failure(service: Service, submit: Callable[..., str]) -> None:
    run_id = submit(WAITING, keep="on-failure")
    begun(service, run_id)
    service.cancel(run_id)
    assert end_of(service, run_id) == "cancelled"
    assert left_by(service, run_id) == []
