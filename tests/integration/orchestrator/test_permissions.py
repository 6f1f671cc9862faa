"""Permissions of a run: they hold for the agent's tools and its commands alike, and the patch is about the rest."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.runs.models import Event, Run
from orchestrator.service import Service
from orchestrator.spec import RunSpec

RULES = [
    {"operations": ["read", "write"], "paths": ["secret", "key.pem"], "mode": "deny"},
    {"operations": ["write"], "paths": ["tests/**"], "mode": "deny"},
]


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest) -> dict[str, Any]:
    image = {"image": "fanfold-test/base:latest"} if request.param == "docker" else {}
    return {"provider": request.param, **image}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    found = tmp_path / "repo"
    (found / "tests").mkdir(parents=True)
    (found / "secret" / "deep").mkdir(parents=True)
    (found / "tests" / "check.sh").write_text("echo the true check\n")
    (found / "tests" / "check.sh").chmod(0o755)
    (found / "tests" / "link").symlink_to("check.sh")
    (found / "secret" / "deep" / "word").write_text("sesame\n")
    (found / "key.pem").write_text("sesame\n")
    (found / "main.txt").write_text("one\n")
    return found


class Done:
    def __init__(self, service: Service, run: Run, events: list[Event]) -> None:
        self.run = run
        self.results = {e.data["id"]: e.data["text"] for e in events if e.type == "tool.result"}
        self.said = "".join(e.data["text"] for e in events if e.type == "verify.output")
        self.artifacts = {a.name: service.open_artifact(run.id, a.name).read() for a in service.artifacts(run.id)}


def run(service: Service, base: Path, sandbox: dict[str, Any], calls: dict[str, Any], **spec: Any) -> Done:
    """Run an agent that makes these calls, by their ids, one after the other."""
    turns: list[Any] = [{"tool_calls": [{"id": key, "name": name, "args": args}]} for key, (name, args) in calls.items()]
    (base / "script.yaml").write_text(yaml.safe_dump({"turns": [*turns, {"text": "done"}]}))
    agent = {"prompt": "Go.", "model": "scripted:script.yaml", "permissions": RULES}
    asked = RunSpec.model_validate({"agent": agent, "inputs": {"path": "repo"}, "sandbox": sandbox, **spec})
    submitted = service.submit(asked, base_dir=base)
    service.ensure_worker()
    events = list(service.follow(submitted.id))
    return Done(service, service.get(submitted.id), events)


def command(text: str) -> tuple[str, dict[str, str]]:
    return ("execute", {"command": text})


def test_what_is_closed_stays_closed_for_tools_and_commands(
    service: Service, tmp_path: Path, repo: Path, sandbox: dict[str, Any]
) -> None:
    done = run(
        service,
        tmp_path,
        sandbox,
        {
            "cat": command("cat secret/deep/word key.pem; grep -r sesame . ; true"),
            "read": ("read_file", {"file_path": "secret/deep/word"}),
            "find": ("grep", {"pattern": "sesame"}),
            "change": command("echo echo forged > tests/check.sh"),
            "move": command("mv tests elsewhere"),
            "remove": command("rm -rf tests"),
            "plant": command("touch tests/new secret/new"),
            "edit": ("edit_file", {"file_path": "tests/check.sh", "old_string": "true", "new_string": "false"}),
            "delete": ("delete", {"file_path": "tests"}),
            "allowed": command("sh tests/check.sh && sh tests/link && echo two >> main.txt"),
        },
        verify="./tests/check.sh && ls -A secret",
    )
    assert done.run.error is None
    assert not any("sesame\n" in text for text in done.results.values())
    assert "a permission denies it" in done.results["read"]
    assert done.results["find"] == '[No line contains "sesame"]'
    for call in ("change", "move", "remove", "plant"):
        assert "failed with exit code" in done.results[call], call
    for call in ("edit", "delete"):
        assert "a permission denies it" in done.results[call], call
    assert done.results["allowed"].startswith("the true check\nthe true check\n")
    assert done.said == "the true check\n"


def test_the_patch_says_nothing_of_what_was_closed(
    service: Service, tmp_path: Path, repo: Path, sandbox: dict[str, Any]
) -> None:
    done = run(service, tmp_path, sandbox, {"a": command("echo two >> main.txt")})
    patch = done.artifacts["patch.diff"]
    assert patch.count(b"diff --git") == 1
    assert b"main.txt" in patch
    subprocess.run(["git", "apply", "-"], cwd=repo, input=patch, check=True)
    assert (repo / "secret/deep/word").exists()
