"""Policies as users write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.errors import BadInput
from orchestrator.mergepolicy import parse_policies
from sandboxes.workspace.merge import Policy, Rule


def test_patterns_and_files_come_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    rules = "rules:\n  - {path: '*.json', driver: json, policy: ask}\n  - {path: l, command: make}\n"
    file.write_text("include: [src/]\nexclude: ['*.log']\n" + rules)
    assert parse_policies(["*=ours", str(file), "a=b=theirs"]) == Policy(
        (Rule("*", "ours"), Rule("*.json", "ask", "json"), Rule("l", command="make"), Rule("a=b", "theirs")),
        ("src/",),
        ("*.log",),
    )


def test_without_any_everything_is_merged_with_markers() -> None:
    assert parse_policies([]) == Policy()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "a policy is a mapping"),
        ("rulez: []", "did you mean 'rules'?"),
        ("rules: [{path: a, policy: mine}]", "policy.yaml:1: rules.0.policy"),
        ("rules: [{policy: ours}]", "rules.0.path: is missing"),
        ("rules: [{path: '!a'}]", "can match nothing"),
        ("rules: {", "not valid YAML"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(BadInput) as caught:
        parse_policies([str(file)])
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("value", "said"), [("*=mine", "'mine' is no policy"), ("=ours", "can match nothing"), ("nothing", "no such file")]
)
def test_what_is_wrong_with_a_pattern_is_said(value: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_policies([value])
    assert said in str(caught.value)


def test_reading_a_task_loads_no_git_library() -> None:
    script = "import sys, orchestrator.mergepolicy, orchestrator.spec; print('pygit2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
