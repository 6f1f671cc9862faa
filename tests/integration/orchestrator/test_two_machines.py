"""A run that is submitted on one machine is executed on another: here, processes with homes of their own."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.broker import Broker
from orchestrator.runs.models import Run
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from tests.services_s3 import S3Server, s3_server

SECRET = "hunter2-hunter2"
PUT_AWAY_TIMEOUT = 30.0
"""Seconds for a worker to remove what it had of a run."""


@dataclass(frozen=True)
class Two:
    """One record and one broker, two homes."""

    here: Service
    there: Service

    def executed(self, base: Path, **spec: object) -> Run:
        """Submit here, and have a worker there."""
        task = RunSpec.model_validate(spec)
        run = self.here.submit(task, base_dir=base, granted=["MINE"], environ={"MINE": SECRET})
        self.there.ensure_worker()
        list(self.there.follow(run.id))
        return self.here.get(run.id)

    def wait_until_empty(self) -> None:
        """Wait until no machine keeps anything of any run: a worker tells that one has ended before it puts it away."""
        late = time.monotonic() + PUT_AWAY_TIMEOUT
        while left := [path for one in (self.here, self.there) for path in one.settings.runs_dir.glob("*")]:
            assert time.monotonic() < late, left
            time.sleep(0.05)

    def output(self, run: Run) -> str:
        return "".join(event.data["text"] for event in self.here.events(run.id) if event.type == "command.output")


@pytest.fixture
def two(new_home: Callable[..., object], tmp_path: Path) -> Iterator[Callable[..., Two]]:
    """Makes two machines; `variables` are those of both, `theirs` are the other one's."""
    with ExitStack() as stack:

        def make(theirs: dict[str, str] | None = None, **variables: str) -> Two:
            here: Settings = stack.enter_context(new_home(**variables))  # type: ignore[arg-type]
            Broker(here).ensure()
            shared = {"DATABASE_URL": here.database, "REDIS_URL": Broker(here).url}
            there: Settings = stack.enter_context(new_home(**{**variables, **shared, **(theirs or {})}))  # type: ignore[arg-type]
            return Two(stack.enter_context(Service(here)), stack.enter_context(Service(there)))

        yield make


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    (folder / "repo").mkdir(parents=True)
    (folder / "repo" / "a.txt").write_text("of the inputs\n")
    return folder


def new_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


TASK = {
    "command": "cat a.txt; echo ${#KEY}; echo new > b.txt",
    "inputs": {"path": "repo"},
    "secrets": {"KEY": "${MINE}"},
}


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where artifacts are, for both machines."""
    if request.param == "folder":
        return str(tmp_path / "shared")
    server: S3Server = request.getfixturevalue("s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{server.new_bucket()}/runs"


def contents(place: str, request: pytest.FixtureRequest) -> list[bytes]:
    """All that lies in the place."""
    if not place.startswith("s3://"):
        return [path.read_bytes() for path in Path(place).rglob("*") if path.is_file()]
    files = request.getfixturevalue("s3").filesystem
    return [files.cat_file(name) for name in files.find(place)]


def test_inputs_and_secrets_go_through_the_shared_place(two, base: Path, place: str, request: pytest.FixtureRequest) -> None:
    machines = two(ARTIFACTS_URL=place, SECRET_KEY=new_key())
    run = machines.executed(base, **TASK)
    assert run.error is None
    assert machines.output(run) == f"of the inputs\n{len(SECRET)}\n"
    with machines.here.open_artifact(run.id, "patch.diff") as patch:
        assert b"+new" in patch.read()
    # Nothing of it stays on either machine, and of the secrets nothing stays in the record.
    machines.wait_until_empty()
    assert sorted(one.name for one in machines.here._of.store.frozen(run.id)) == [".inputs/input.json", ".inputs/input.tar"]
    assert [one.name for one in machines.here.artifacts(run.id)] == ["patch.diff"]
    found = contents(place, request)
    assert len(found) >= 4
    assert not [content for content in found if SECRET.encode() in content]


def test_a_run_that_was_executed_elsewhere_can_be_tried_again(two, base: Path, tmp_path: Path) -> None:
    machines = two(ARTIFACTS_URL=str(tmp_path / "shared"), SECRET_KEY=new_key())
    first = machines.executed(base, **TASK)
    (base / "repo" / "a.txt").write_text("changed since\n")
    again = machines.here.retry(first.id, secrets={"MINE": SECRET})
    list(machines.here.follow(again.id))
    assert machines.output(again) == f"of the inputs\n{len(SECRET)}\n"


def test_a_run_whose_secrets_were_sealed_with_another_key_fails_and_says_so(two, base: Path, tmp_path: Path) -> None:
    machines = two({"SECRET_KEY": new_key()}, ARTIFACTS_URL=str(tmp_path / "shared"), SECRET_KEY=new_key())
    run = machines.executed(base, **TASK)
    assert run.error
    assert run.error.kind == "infrastructure"
    assert "FANFOLD_SECRET_KEY" in run.error.message


@pytest.mark.parametrize("missing", ["inputs", "secrets"])
def test_without_a_shared_place_a_run_fails_rather_than_run_without_what_it_needs(two, base: Path, missing: str) -> None:
    machines = two(SECRET_KEY=new_key())
    run = machines.executed(base, command="echo begun", **{missing: TASK[missing]})
    assert run.error
    assert f"the run's {missing}" in run.error.message
    assert "set FANFOLD_ARTIFACTS_URL" in run.error.message
    assert machines.output(run) == ""
