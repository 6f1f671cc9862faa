"""What a run used is told by the service and the command line, whatever became of the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.runs.models import RunStatus
from orchestrator.service import Service
from orchestrator.spec import RunSpec

SCRIPT = """
turns:
  - tool_calls: [{id: a, name: execute, args: {command: COMMAND}}]
    usage: {input_tokens: 1000, output_tokens: 100}
  - {text: done, usage: {input_tokens: 500, output_tokens: 50}}
"""
PRICES = 'models: {"*": {input: 2, output: 10}}'


@pytest.fixture(scope="module")
def service(new_home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    prices = tmp_path_factory.mktemp("prices") / "prices.yaml"
    prices.write_text(PRICES)
    with new_home(PRICES=str(prices)) as settings, Service(settings) as opened:
        yield opened


def submitted(service: Service, base: Path, command: str, **more: object) -> str:
    (base / "script.yaml").write_text(SCRIPT.replace("COMMAND", command))
    task = {"agent": {"model": "scripted:script.yaml", "prompt": "Do it."}, **more}
    run = service.submit(RunSpec.model_validate(task), base_dir=base)
    service.ensure_worker()
    return run.id


def test_tokens_cost_and_the_time_of_the_sandbox_are_recorded(service: Service, tmp_path: Path) -> None:
    run_id = submitted(service, tmp_path, "'true'", verify="exit 1", retries=1)
    list(service.follow(run_id))
    first, second = service.usage(run_id)
    assert (first.attempt, first.agent, first.calls) == (1, "", 2)
    assert (first.input_tokens, first.output_tokens, first.cost_micros) == (1500, 150, 4500)
    assert second == replace(first, attempt=2)
    assert all(attempt.sandbox_seconds for attempt in service.attempts(run_id))


def test_a_run_that_was_cancelled_has_used_what_it_has(service: Service, tmp_path: Path) -> None:
    run_id = submitted(service, tmp_path, "sleep 600")
    for event in service.follow(run_id):
        if event.type == "tool.call":
            service.cancel(run_id)
    assert service.get(run_id).status is RunStatus.CANCELLED
    assert [(one.calls, one.input_tokens) for one in service.usage(run_id)] == [(1, 1000)]
    assert [attempt.status.value for attempt in service.attempts(run_id)] == ["cancelled"]
