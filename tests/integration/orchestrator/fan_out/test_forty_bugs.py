"""Forty agents mend forty bugs of one library at once, each in a fork: what they changed is one patch, and it is right."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.service import Service
from orchestrator.spec import RunSpec, load_task
from tests.integration.orchestrator.fan_out.conftest import Ended

EXAMPLE = Path(__file__).parents[4] / "examples" / "forty-bugs"
CHECK = "python3 -m unittest"

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE / "repo", tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__")))


def unittest_in(folder: Path) -> str:
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False).stderr


def assert_mends(patch: str, copy: Path) -> None:
    """The patch makes the tests of a copy pass, of which each fails without it."""
    assert "Ran 40 tests" in (before := unittest_in(copy))
    assert before.endswith("FAILED (failures=39, errors=1)\n")
    subprocess.run(["git", "apply", "-"], cwd=copy, input=patch, text=True, check=True)
    assert unittest_in(copy).endswith("OK\n")


def told(what: str, began: float, provider: str) -> None:
    print(f"\n{what} on {provider}: {time.monotonic() - began:.1f} s")


def test_forty_children_mend_a_bug_each(
    service: Service, provider: str, ended: Callable[[str], Ended], copy: Path
) -> None:
    task = yaml.safe_load((EXAMPLE / "task.yaml").read_text())
    task["sandbox"]["provider"] = provider
    began = time.monotonic()
    done = ended(service.submit(RunSpec.model_validate(task), base_dir=EXAMPLE).id)
    told("forty children", began, provider)
    assert done.problem == ""
    assert Counter(done.statuses().values()) == {"success": 40}
    assert "Ran 40 tests" in done.output
    assert [len(one["children"]) for one in done.report["merged"]] == [4] * 10
    assert_mends(done.artifacts["patch.diff"], copy)


def test_an_agent_has_forty_subagents_mend_a_bug_each(
    service: Service, provider: str, ended: Callable[[str], Ended], tmp_path: Path, copy: Path
) -> None:
    declared = load_task(EXAMPLE / "task.yaml").fan_out
    assert declared is not None
    asked = [child.agent.prompt for child in declared.children() if child.agent]
    (tmp_path / "script.yaml").write_text(yaml.safe_dump(agents_script(asked)))
    task = {
        "agent": {"prompt": "Have the bugs mended.", "model": "scripted:script.yaml", "merge": {"verify": CHECK}},
        "inputs": {"path": "copy"},
        "sandbox": {"provider": provider, "env": {"PYTHONDONTWRITEBYTECODE": "1"}},
        "verify": CHECK,
    }
    began = time.monotonic()
    done = ended(service.submit(RunSpec.model_validate(task), base_dir=tmp_path).id)
    told("forty subagents", began, provider)
    assert done.problem == ""
    assert Counter(done.statuses().values()) == {"success": 40}
    assert_mends(done.artifacts["patch.diff"], copy)


def agents_script(asked: list[str]) -> dict[str, Any]:
    """An agent that gives each of these tasks to a subagent, all in one answer, and looks at the tests then."""
    subagents = yaml.safe_load((EXAMPLE / "script.yaml").read_text())["turns"]
    calls = [
        {"id": f"bug_{number}", "name": "task", "args": {"subagent_type": "general-purpose", "description": prompt}}
        for number, prompt in enumerate(asked)
    ]
    all_merged = [{"result": call["id"], "contains": ["its test passes.", "[Merged: 1 file"]} for call in calls]
    check = {"id": "check", "name": "execute", "args": {"command": CHECK}}
    passed = {"result": "check", "contains": ["Ran 40 tests", "OK"]}
    turns = [{"tool_calls": calls}, {"expect": all_merged, "tool_calls": [check]}, {"expect": passed, "text": "Done."}]
    return {"turns": turns, "subagents": [{"when": "^A reviewer says", "turns": subagents}]}
