"""What an agent may not read or write is closed to its subagents in forks as well, and stays as it is when they are merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.orchestrator.fan_out.conftest import Ended

FILES = {"secret/deep/word": "sesame\n", "tests/check.sh": "echo the true check\n", "main.txt": "one\n"}
RULES = [
    {"operations": ["read", "write"], "paths": ["secret"], "mode": "deny"},
    {"operations": ["write"], "paths": ["tests/**"], "mode": "deny"},
]


def call(key: str, name: str, **args: str) -> dict[str, Any]:
    return {"id": key, "name": name, "args": args}


CALLS = [
    call("cat", "execute", command="cat secret/deep/word; grep -r sesame . ; ls -A secret; true"),
    call("read", "read_file", file_path="secret/deep/word"),
    call("plant", "execute", command="touch secret/new"),
    call("change", "execute", command="echo forged > tests/check.sh"),
    call("edit", "edit_file", file_path="tests/check.sh", old_string="true", new_string="false"),
    call("allowed", "execute", command="echo two >> main.txt"),
]


def test_a_fork_cannot_read_or_write_what_its_agent_cannot(service: Any, play: Callable[..., Ended]) -> None:
    one_by_one = [{"tool_calls": [one]} for one in CALLS]
    ask = call("ask", "task", subagent_type="general-purpose", description="look around")
    script = {
        "turns": [{"tool_calls": [ask]}, {"text": "done"}],
        "subagents": [{"when": "^look", "turns": [*one_by_one, {"text": "looked"}]}],
    }
    agent = {"prompt": "go", "model": "scripted:script.yaml", "isolation": "fork", "permissions": RULES}
    done = play(FILES, {"script.yaml": script}, agent=agent, verify="cat main.txt; sh tests/check.sh; ls -A secret")
    assert done.problem == ""
    (child,) = done.children
    found = {event.data["id"]: event.data["text"] for event in service.events(child.id) if event.type == "tool.result"}
    assert list(found) == [one["id"] for one in CALLS]
    assert not any("sesame\n" in text for text in found.values())
    assert "a permission denies it" in found["read"]
    assert "a permission denies it" in found["edit"]
    assert "failed with exit code" in found["plant"]
    assert "failed with exit code" in found["change"]
    assert done.results["ask"] == "looked\n\n[Merged: 1 file ('main.txt').]"
    assert done.output == "one\ntwo\nthe true check\n"
    assert done.artifacts["patch.diff"].count("diff --git") == 1
    assert not any("sesame" in text for text in done.artifacts.values())
