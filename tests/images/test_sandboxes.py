"""A task runs on the docker provider in each of the sandbox images, with what the image is for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Fanfold, _with_home
from tests.images.built import PLAN, SANDBOXES

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900), pytest.mark.usefixtures("built")]

WORK = {
    "sandbox-base": "git init -q x && rg -q hello note && python3 -c 'print(6 * 7)' >result",
    "sandbox-python": (
        "python3 -m venv --system-site-packages /tmp/venv && pip --version && "
        "echo 'def test_it(): assert 6 * 7 == 42' >test_it.py && pytest -q -p no:cacheprovider && echo 42 >result"
    ),
    "sandbox-node": (
        "npm init -y && echo 'require(\"assert\").equal(6 * 7, 42)' >one.test.js && node --test && node -p '6 * 7' >result"
    ),
}


@pytest.fixture(scope="module")
def fanfold() -> Iterator[Fanfold]:
    yield from _with_home({})


@pytest.mark.parametrize("name", SANDBOXES)
def test_a_task_runs_in_it(name: str, fanfold: Fanfold, tmp_path: Path) -> None:
    task = {
        "command": f"echo hello >note && {WORK[name]}",
        "sandbox": {"provider": "docker", "image": PLAN.image(name)},
        "outputs": {"files": ["result"]},
    }
    (tmp_path / "task.yaml").write_text(json.dumps(task))
    done = fanfold("run", tmp_path / "task.yaml", "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "out" / "files" / "result").read_text() == "42\n"
