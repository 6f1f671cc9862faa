"""`fanfold` itself, over a wire server that is started as by hand: `python -m tests.wire.daytona`, its variables exported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.acceptance.conftest import Fanfold
from tests.wire.daytona.fixtures import daytona_elsewhere  # noqa: F401 - a fixture

TASK = """
name: hello
command: 'echo "$TOKEN" | wc -c; id -u; pwd; echo hello > out.txt'
sandbox:
  env: {TOKEN: s3cret-value}
"""


@pytest.fixture
def fanfold(tmp_path, daytona_elsewhere):  # noqa: F811
    environ = {"DAYTONA_API_KEY": daytona_elsewhere.key, "DAYTONA_API_URL": daytona_elsewhere.api_url, "DAYTONA_TARGET": "us"}
    (tmp_path / "task.yaml").write_text(TASK)
    (tmp_path / "home").mkdir()
    made = Fanfold(tmp_path / "home", environ)
    yield made
    made.stop()


def test_a_task_runs_on_daytona_and_leaves_nothing_there(tmp_path, fanfold, daytona_elsewhere):  # noqa: F811
    done = fanfold("run", tmp_path / "task.yaml", "--provider", "daytona")
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "sandbox ready on daytona" in told
    assert "13\n" in told
    assert daytona_elsewhere.names() == []


def test_a_key_that_is_not_good_is_said_plainly(tmp_path, fanfold):
    done = fanfold("run", tmp_path / "task.yaml", "--provider", "daytona", DAYTONA_API_KEY="dtn_wrong")
    told = done.stdout + done.stderr
    assert done.returncode != 0
    assert "Daytona does not know the key" in told
    assert "Traceback" not in told


def test_without_the_sdk_the_way_to_get_it_is_told():
    script = """
import sys
from pathlib import Path
from sandboxes.errors import ProviderUnavailable
from sandboxes.providers.registry import get_provider

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "daytona":
            raise ModuleNotFoundError("No module named 'daytona'", name="daytona")

sys.meta_path.insert(0, Missing())
try:
    get_provider("daytona", home=Path("."))
except ProviderUnavailable as exc:
    print(exc)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "pip install 'fanfold[daytona]'" in done.stdout
