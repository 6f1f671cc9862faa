"""`fanfold run --provider modal`, against a wire server that was started by hand."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandboxes.providers.modal import ModalProvider
from tests.acceptance.conftest import _with_home, until
from tests.wire.modal.fixtures import modal_by_hand

__all__ = ["modal_by_hand"]
pytestmark = pytest.mark.docker
EXAMPLE = Path(__file__).parents[2] / "examples" / "fix-the-bug"


@pytest.fixture(scope="module")
def shared(modal_by_hand: dict[str, str]) -> Iterator[Any]:
    yield from _with_home({"FANFOLD_MODAL_IMAGE": modal_by_hand["FANFOLD_MODAL_IMAGE"]})


@pytest.fixture(autouse=True)
def nothing_is_left(fanfold: Any) -> Iterator[None]:
    yield
    until(lambda: not running(), "no sandbox is left on the platform")


def running() -> list[str]:
    """Sandboxes of this test's server: its app's, under the ids that the provider gives."""
    return asyncio.run(found())


async def found() -> list[str]:
    provider = ModalProvider()
    try:
        return [one.id for one in await provider.find()]
    finally:
        await provider.aclose()


@pytest.fixture
def task(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        (tmp_path / "task.yaml").write_text(text)
        return tmp_path / "task.yaml"

    return write


def test_a_command_runs_there_and_brings_home_what_it_made(fanfold: Any, task: Callable[[str], Path]) -> None:
    file = task("command: echo hello > a.txt\noutputs: {files: [a.txt], patch: true}\n")
    done = fanfold("run", file, "--provider", "modal", "-o", "json")

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["run"]["status"] == "success"
    kept = {artifact["name"]: Path(artifact["path"]) for artifact in document["artifacts"]}
    assert kept["files/a.txt"].read_text() == "hello\n"
    assert "+hello" in kept["patch.diff"].read_text()


def test_a_command_that_fails_there_fails_the_run(fanfold: Any, task: Callable[[str], Path]) -> None:
    done = fanfold("run", task("command: exit 3"), "--provider", "modal")

    assert done.returncode == 1
    assert "the command failed with exit code 3" in done.stdout


def test_an_agent_fixes_a_bug_there(fanfold: Any, tmp_path: Path) -> None:
    done = fanfold("run", EXAMPLE, "--provider", "modal", "--out", tmp_path / "out")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "sandbox ready on modal" in done.stdout
    subprocess.run(["cp", "-r", EXAMPLE / "repo", tmp_path / "repo"], check=True)
    subprocess.run(["git", "apply", tmp_path / "out" / "patch.diff"], cwd=tmp_path / "repo", check=True)


def test_a_key_that_is_missing_is_told_and_the_run_ends(fanfold: Any, task: Callable[[str], Path]) -> None:
    file = task("command: echo hello")
    done = fanfold("doctor", MODAL_TOKEN_ID="")

    assert "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert fanfold("run", file, "--dry-run", "--provider", "modal").returncode == 0
