"""The example in examples/fix-the-bug, run by the agent on a copy of its repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.spec import RunSpec, load_task

EXAMPLE = Path(__file__).parents[4] / "examples" / "fix-the-bug"


@pytest.fixture
def task() -> RunSpec:
    return load_task(EXAMPLE / "task.yaml")


@pytest.fixture
def repository(folder: Path) -> Path:
    shutil.copytree(EXAMPLE / "repo", folder, dirs_exist_ok=True)
    return folder


def unittest_in(repository: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=60, check=False)


def test_the_repository_has_three_failing_tests(repository: Path) -> None:
    done = unittest_in(repository)
    assert done.returncode == 1
    assert "FAILED (failures=3)" in done.stderr


async def test_the_agent_makes_the_tests_pass(agents: Any, task: RunSpec, repository: Path) -> None:
    assert task.agent
    outcome = await agents.run((EXAMPLE / "script.yaml").read_bytes(), prompt=task.agent.prompt, max_steps=task.agent.max_steps)

    assert unittest_in(repository).returncode == 0
    assert "All 14 tests pass." in outcome.text
    assert outcome.steps == len(yaml.safe_load((EXAMPLE / "script.yaml").read_text())["turns"])
    assert outcome.usage["total_tokens"] == outcome.usage["input_tokens"] + outcome.usage["output_tokens"] > 30_000


async def test_the_agent_sees_the_tests_fail_twice_before_they_pass(agents: Any, repository: Path) -> None:
    await agents.run((EXAMPLE / "script.yaml").read_bytes())
    runs = [agents.results()[name].splitlines()[-1] for name in ("before", "again", "after")]
    assert runs == ["[Command failed with exit code 1]"] * 2 + ["[Command succeeded with exit code 0]"]
    assert agents.of("todos.updated")[-1]["todos"][-1]["status"] == "completed"
    assert {data["name"] for data in agents.of("tool.call")} >= {"ls", "glob", "grep", "read_file", "edit_file", "execute"}


async def test_only_the_library_is_changed(agents: Any, repository: Path) -> None:
    await agents.run((EXAMPLE / "script.yaml").read_bytes())
    changed = [
        path.relative_to(repository).as_posix()
        for path in sorted(repository.rglob("*"))
        if path.is_file() and path.read_bytes() != (EXAMPLE / "repo" / path.relative_to(repository)).read_bytes()
    ]
    assert changed == ["semver/version.py"]
