"""A task that may be on several providers: an engine that is not there, platforms without room, others that work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import BadInput
from orchestrator.runs.models import Event, Run, RunStatus
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from sandboxes.portal import portal
from sandboxes.providers.registry import get_provider
from tests.integration.orchestrator.conftest import working

THEIRS = '''
from sandboxes.errors import NotAuthenticated, QuotaExceeded, RateLimited
from sandboxes.providers.local import LocalProvider
from sandboxes.testing.fakes import Broken


class Elsewhere(LocalProvider):
    """Works, and says that it separates as containers do."""

    name = "elsewhere"
    isolation = "container"

    def __init__(self, home):
        super().__init__(home / "elsewhere")


class Named(LocalProvider):
    isolation = "container"

    def __init__(self, home, name):
        super().__init__(home / name)
        self.name = name


def crowded(home):
    full = QuotaExceeded("the account has 3 sandboxes of 3")
    return Broken(full, only={"create"}).provider(Named(home, "crowded"))


class Busy(Named):
    calls = 0

    def __init__(self, home):
        super().__init__(home, "busy")

    async def create(self, spec, labels=None, *, from_snapshot=None):
        Busy.calls += 1
        if Busy.calls == 1:
            raise RateLimited("too many requests", retry_after=0.5)
        return await super().create(spec, labels, from_snapshot=from_snapshot)


def locked(home):
    return Broken(NotAuthenticated("the key is not known"), only={"create"}).provider(Named(home, "locked"))
'''

POLICY = """
providers:
  locked: {not_authenticated: fall_back}
  crowded: {breaker: {failures: 2, cool_down: 1h}}
  elsewhere: {max_running: 3}
  local: {max_running: 1}
"""


@dataclass(frozen=True)
class Finished:
    """A run that has ended."""

    run: Run
    events: list[Event]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event.data for event in self.events if event.type == kind]

    @property
    def passed_over(self) -> dict[str, str]:
        """The reasons, by provider."""
        [chosen] = self.of("provider.chosen")
        return {one["provider"]: one["reason"] for one in chosen["passed_over"]}

    @property
    def message(self) -> str:
        assert self.run.error is not None
        return self.run.error.message


@pytest.fixture(scope="module")
def platforms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    """An engine that is away, and a distribution with providers of its own."""
    folder = tmp_path_factory.mktemp("platforms")
    (folder / "platforms.py").write_text(THEIRS)
    info = folder / "platforms-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: platforms\nVersion: 1.0\n")
    named = "elsewhere = platforms:Elsewhere\nbusy = platforms:Busy\ncrowded = platforms:crowded\nlocked = platforms:locked\n"
    (info / "entry_points.txt").write_text(f"[fanfold.providers]\n{named}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{folder}/nobody.sock")
        patch.setenv("MODAL_CONFIG_PATH", str(folder / "modal.toml"))
        for name in ("MODAL_TOKEN_ID", "DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN"):
            patch.delenv(name, raising=False)
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        patch.syspath_prepend(folder)
        yield patch
    sys.modules.pop("platforms", None)


@pytest.fixture(scope="module")
def service(platforms: pytest.MonkeyPatch, settings: Settings) -> Iterator[Service]:
    """Without a policy."""
    with Service(settings) as opened, working(opened):
        yield opened


@pytest.fixture(scope="module")
def ruled(platforms: pytest.MonkeyPatch, new_home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With `POLICY`."""
    file = tmp_path_factory.mktemp("policy") / "policy.yaml"
    file.write_text(POLICY)
    with new_home(POLICY=str(file), WORKER_CONCURRENCY="2") as settings, Service(settings) as opened, working(opened):
        yield opened


Execute = Callable[..., Finished]


def submit(service: Service, base: Path, *providers: str, command: str = "true", **more: Any) -> str:
    sandbox = {"provider": providers[0]} if len(providers) == 1 else {"providers": providers}
    sandbox |= more.pop("sandbox", {})
    task = more.pop("task", {"command": command})
    return service.submit(RunSpec.model_validate({**task, "sandbox": sandbox, **more}), base_dir=base).id


def finished(service: Service, run_id: str) -> Finished:
    events = list(service.follow(run_id))
    return Finished(service.get(run_id), events)


@pytest.fixture
def execute(service: Service, tmp_path: Path) -> Execute:
    return lambda *providers, **more: finished(service, submit(service, tmp_path, *providers, **more))


@pytest.fixture
def execute_ruled(ruled: Service, tmp_path: Path) -> Execute:
    return lambda *providers, **more: finished(ruled, submit(ruled, tmp_path, *providers, **more))


def test_with_one_provider_an_outage_fails_the_attempt_and_retries_try_again(execute: Execute, service: Service) -> None:
    done = execute("docker", retries=1)  # the first test of all: nobody has been left alone yet
    assert done.message.startswith("no Docker engine answers at ")
    assert done.of("provider.chosen") == []
    assert len(service.attempts(done.run.id)) == 2


def test_when_the_engine_is_away_the_next_one_takes_its_place_and_it_is_told_why(execute: Execute, service: Service) -> None:
    done = execute("docker", "elsewhere")
    assert (done.run.status, done.run.provider) == (RunStatus.SUCCESS, "elsewhere")
    assert list(done.passed_over) == ["docker"]
    assert "no Docker engine answers at unix://" in done.passed_over["docker"]
    assert [one.provider for one in service.attempts(done.run.id)] == ["elsewhere"]


def test_a_platform_without_room_is_passed_over(execute: Execute) -> None:
    done = execute("crowded", "elsewhere")
    assert (done.run.status, done.run.provider) == (RunStatus.SUCCESS, "elsewhere")
    assert done.passed_over == {"crowded": "the account has 3 sandboxes of 3"}


def test_the_first_that_works_is_taken_and_nothing_is_passed_over(execute: Execute) -> None:
    done = execute("elsewhere", "docker", "local")
    assert done.run.provider == "elsewhere"
    assert done.passed_over == {}


def test_nothing_weaker_takes_the_place_of_the_first(execute: Execute) -> None:
    done = execute("docker", "local")
    assert (done.run.status, done.run.error and done.run.error.kind) == (RunStatus.ERROR, "infrastructure")
    assert "no Docker engine answers" in done.message
    assert "local: its isolation (process) is weaker than that of docker (container)" in done.message
    assert "sandbox.weaker_isolation: allow" in done.message
    assert done.of("sandbox.created") == []


def test_unless_its_task_allows_that(execute: Execute) -> None:
    done = execute("docker", "local", sandbox={"weaker_isolation": "allow"})
    assert (done.run.status, done.run.provider) == (RunStatus.SUCCESS, "local")


def test_a_command_that_fails_goes_nowhere_else(execute: Execute) -> None:
    done = execute("elsewhere", "local", command="exit 7", retries=1, sandbox={"weaker_isolation": "allow"})
    assert done.message == "the command failed with exit code 7"
    assert [one["provider"] for one in done.of("sandbox.created")] == ["elsewhere", "elsewhere"]


def test_a_key_that_is_refused_fails_loudly(execute: Execute) -> None:
    done = execute("locked", "elsewhere")
    assert (done.run.status, done.message) == (RunStatus.ERROR, "the key is not known")


def test_a_list_in_which_one_cannot_give_what_is_asked_is_refused_with_every_reason(execute: Execute) -> None:
    done = execute("elsewhere", "crowded", sandbox={"image": "python:3.12"})
    assert done.run.error is not None
    assert done.run.error.kind == "input"
    assert "elsewhere: provider 'elsewhere' cannot give: image" in done.message
    assert "crowded: provider 'crowded' cannot give: image" in done.message


def test_a_name_that_no_worker_knows_is_refused_before_it_is_recorded(execute: Execute, service: Service) -> None:
    before = len(service.list(limit=1000))
    with pytest.raises(BadInput, match=r"there is no sandbox provider 'elsewere'\. Did you mean 'elsewhere'\?"):
        execute("elsewhere", "elsewere")
    assert len(service.list(limit=1000)) == before


def test_a_list_of_which_no_worker_can_use_any_is_refused_with_every_reason(execute: Execute, service: Service) -> None:
    with pytest.raises(BadInput) as refused:
        execute("modal", "daytona", "local")
    message = str(refused.value)
    assert message.startswith("sandbox.providers: no worker that is alive can make a sandbox on any of them: modal: ")
    assert "modal: there is no key for it: set MODAL_TOKEN_ID" in message
    assert "daytona: there is no key for it: set DAYTONA_API_KEY" in message
    assert "local: its isolation (process) is weaker than that of modal (machine)" in message


def test_one_without_a_key_is_passed_over_where_another_may_be(execute: Execute) -> None:
    done = execute("modal", "local", sandbox={"weaker_isolation": "allow"})
    assert done.run.provider == "local"
    assert "there is no key for Modal here" in done.passed_over["modal"]


def test_auto_is_local_where_no_engine_answers(execute: Execute) -> None:
    done = execute("auto")
    assert (done.run.status, done.run.provider) == (RunStatus.SUCCESS, "local")
    assert "no Docker engine answers" in done.passed_over["docker"]


def test_a_platform_that_says_when_to_come_again_is_waited_for(execute: Execute, service: Service) -> None:
    done = execute("busy")
    assert (done.run.status, len(service.attempts(done.run.id))) == (RunStatus.SUCCESS, 1)
    assert "waits for a provider: busy: too many requests" in [one["text"] for one in done.of("log")]


def test_children_are_where_their_parents_sandbox_is(execute: Execute, service: Service) -> None:
    fan_out = {"items": ["a", "b"], "command": "echo ${{ item }} > ${{ item }}"}
    done = execute("docker", "elsewhere", task={"fan_out": fan_out}, verify="ls a b")
    assert done.run.status is RunStatus.SUCCESS
    assert [child.provider for child in service.children(done.run.id)] == ["elsewhere"] * 2


def test_an_agent_that_uses_no_sandbox_until_later_gets_one_of_those_that_work(execute: Execute, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("turns: [{tool_calls: [{name: execute, args: {command: pwd}}]}, {text: done}]\n")
    agent = {"prompt": "x", "model": "scripted:script.yaml"}
    done = execute("docker", "crowded", "elsewhere", task={"agent": agent})
    assert (done.run.status, done.run.provider) == (RunStatus.SUCCESS, "elsewhere")
    assert list(done.passed_over) == ["docker", "crowded"]


# With a policy

def test_auto_is_what_the_policy_lists_and_a_refused_key_may_be_passed_over(execute_ruled: Execute) -> None:
    done = execute_ruled("auto")
    assert (done.run.status, done.run.provider) == (RunStatus.SUCCESS, "elsewhere")
    assert list(done.passed_over) == ["locked", "crowded"]
    assert done.passed_over["locked"] == "the key is not known"


def test_auto_passes_over_who_cannot_give_what_is_asked(execute_ruled: Execute) -> None:
    done = execute_ruled("auto", sandbox={"network": "allowlist", "allowed_hosts": ["a.example"]})
    assert done.run.error is not None
    assert done.run.error.kind == "input"
    assert "elsewhere: provider 'elsewhere' cannot give: network: allowlist" in done.message


def test_a_provider_that_has_failed_often_is_left_alone(execute_ruled: Execute) -> None:
    for _ in range(2):
        execute_ruled("crowded", "elsewhere")
    done = execute_ruled("crowded", "elsewhere")
    assert done.run.provider == "elsewhere"
    assert "left alone for" in done.passed_over["crowded"]
    alone = execute_ruled("crowded")
    assert "left alone for" in alone.message
    assert "the account has 3 sandboxes of 3" in alone.message


def overlap(spans: list[tuple[float, float]]) -> int:
    """How many were under way at once, at most."""
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)


def test_no_more_runs_have_sandboxes_there_than_may_over_all_workers(ruled: Service, tmp_path: Path) -> None:
    with working(ruled):
        runs = [submit(ruled, tmp_path, "elsewhere", command="sleep 1") for _ in range(8)]  # both could execute 4 at once
        done = [finished(ruled, run_id) for run_id in runs]
    assert {one.run.status for one in done} == {RunStatus.SUCCESS}
    times = [{event.type: event.at.timestamp() for event in one.events} for one in done]
    assert overlap([(one["sandbox.created"], one["run.finished"]) for one in times]) == 3
    assert len({one.run.worker for one in done}) == 2


def test_over_the_cap_a_run_goes_to_the_next_that_it_lists_and_without_a_list_it_waits(
    ruled: Service, until: Callable[..., None], tmp_path: Path
) -> None:
    held = submit(ruled, tmp_path, "local", command="sleep 60")
    until(lambda: ruled.get(held).sandbox, "it has its sandbox")
    waits = submit(ruled, tmp_path, "local")
    goes = finished(ruled, submit(ruled, tmp_path, "local", "elsewhere"))
    assert (goes.run.status, goes.run.provider) == (RunStatus.SUCCESS, "elsewhere")
    assert "as many runs as the operator allows" in goes.passed_over["local"]
    assert ruled.get(waits).status is RunStatus.PENDING
    ruled.cancel(held)
    assert finished(ruled, waits).run.provider == "local"


def test_nothing_is_left(service: Service, ruled: Service) -> None:
    for one in (service, ruled):
        for name in ("local", "elsewhere", "busy", "crowded", "locked"):
            assert portal.run(get_provider(name, home=one._of.settings.home).find()) == []
