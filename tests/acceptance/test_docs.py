"""Every command and snippet in README and docs is run, so that none goes stale: a page is one script, over one `fanfold up`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

from benchmarks import crowd
from orchestrator.api.heads import LAST_POLL
from orchestrator.cli.app import app
from orchestrator.policy import Policy, load_policy
from orchestrator.runs.engine import POOL_OVERFLOW, POOL_SIZE
from orchestrator.runs.prices import load_prices
from orchestrator.settings import Settings
from orchestrator.spec import load_task
from tests.acceptance.conftest import COMMAND, Fanfold, until
from tests.acceptance.pages import PAGES, ROOT, blocks, name_of, script, shown, write_files, write_programs
from tests.conftest import missing
from tests.services import free_port
from tests.unit.orchestrator.controller.receiver import receiving

API = "http://127.0.0.1:8000"
HOOK = "https://hooks.example.com/fanfold"
SECONDS = 100
"""For one page."""
NO_TASK = ("script.yaml", "policy.yaml", "prices.yaml", "merge.yaml")
ELSEWHERE = ("chart-", "pipeline-")
"""What files begin with that other tests look at: tests/chart/test_page.py, and test_pipelines.py beside this one."""


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """The addresses on the pages, and those that are there: of `fanfold up`, and of somebody who receives webhooks."""
    with receiving() as receiver:
        yield {API: f"http://127.0.0.1:{free_port()}", HOOK: receiver.url}


@pytest.fixture(scope="module")
def shared(addresses: dict[str, str]) -> Iterator[Fanfold]:
    """The command line of a user whose home is where it is without `FANFOLD_HOME`, and who has started `fanfold up`."""
    user = Path(tempfile.mkdtemp(prefix="fanfold-test-"))
    write_programs(user / "bin")
    (user / ".curlrc").write_text("fail-with-body\nno-progress-meter\n")  # an answer that refuses is a failure
    environ = {
        "HOME": str(user), "CURL_HOME": str(user), "PATH": f"{user / 'bin'}:{os.environ['PATH']}",
        "FANFOLD_WEBHOOK_ALLOW_PRIVATE": "true", "MY_TOKEN": "x", "ANTHROPIC_API_KEY": "x",
    }  # fmt: skip
    fanfold = Fanfold(user / ".local" / "state" / "fanfold", environ)
    port = addresses[API].rpartition(":")[2]
    with (user / "log").open("wb") as log:
        up = subprocess.Popen([*COMMAND, "up", "--port", port], stdout=log, stderr=log, env=fanfold.environment())
    try:
        until(lambda: (fanfold.home / "api.key").exists() and _answers(addresses[API]), "fanfold up answers")
        yield fanfold
    finally:
        up.terminate()
        up.wait(SECONDS)
        sys.stdout.write((user / "log").read_text())
        fanfold.stop()
        shutil.rmtree(user)


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False


def _runs(fanfold: Fanfold) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(fanfold("runs", "ls", "-o", "json", "-n", "1000").stdout)
    return found


def _ended(fanfold: Fanfold) -> bool:
    return all(run["status"] not in ("pending", "running", "interrupted") for run in _runs(fanfold))


def pages(*languages: str) -> list[Any]:
    return [pytest.param(page, id=page.name) for page in PAGES if any(blocks(page, *languages))]


@pytest.mark.parametrize("page", pages("sh", "python"))
def test_what_a_page_says_to_type_works(page: Path, fanfold: Fanfold, addresses: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        missing("There is no curl.")
    before = {run["id"] for run in _runs(fanfold)}
    write_files(page, tmp_path)
    path = script(page, tmp_path, addresses)

    done = subprocess.run(
        ["timeout", str(SECONDS), "sh", path], cwd=tmp_path, env=fanfold.environment(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    rest = done.stdout
    for text in shown(page):
        assert text in rest, f"{page.name} says that this is printed: {text}\n{done.stdout}"
        rest = rest.partition(text)[2]
    until(lambda: _ended(fanfold), f"the runs of {page.name} have ended")
    assert [run for run in _runs(fanfold) if run["id"] not in before and run["status"] != "success"] == []


def yaml_blocks() -> list[Any]:
    found = [(page, text) for page in PAGES for _, text in blocks(page, "yaml")]
    found = [(page, text) for page, text in found if not (name_of(text) or "").startswith((*NO_TASK, *ELSEWHERE))]
    return [pytest.param(page, text, id=f"{page.name}-{name_of(text)}") for page, text in found]


@pytest.mark.parametrize(("page", "text"), yaml_blocks())
def test_every_task_file_is_one(page: Path, text: str, fanfold: Fanfold, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    (tmp_path / "task.yaml").write_text(text)
    spec = load_task(tmp_path / "task.yaml")
    granted = [option for name in spec.secret_variables.values() for option in ("--secret", name)]
    done = fanfold("run", tmp_path / "task.yaml", "--dry-run", *granted, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_operators_files_are_ones(tmp_path: Path) -> None:
    write_files(ROOT / "docs" / "operating.md", tmp_path)
    policy = load_policy(tmp_path / "policy.yaml")
    assert policy.queues == ["fanfold", "gpu", "ml"]
    assert policy.fan_out == Policy().fan_out, "the page says what the defaults are"
    assert load_prices(tmp_path / "prices.yaml") is not None


def test_the_script_in_the_docs_plays(fanfold: Fanfold, tmp_path: Path) -> None:
    write_files(ROOT / "docs" / "tasks.md", tmp_path)
    (tmp_path / "play.yaml").write_text(
        "agent: {model: 'scripted:script.yaml', prompt: Look around.}\ninputs: {path: ./repo}\n"
    )
    done = fanfold("run", tmp_path / "play.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "There is a README" in done.stdout


def test_the_demo_mends_the_library_and_its_patch_applies(fanfold: Fanfold, tmp_path: Path) -> None:
    write_programs(tmp_path / "bin")
    done = subprocess.run(
        ["sh", ROOT / "scripts" / "demo.sh", tmp_path / "bin"],
        capture_output=True, text=True, env=fanfold.environment(), timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Ran 14 tests" in done.stderr
    assert done.stderr.rstrip().endswith("OK")


def test_the_numbers_on_the_page_about_scaling_are_those_of_the_code() -> None:
    text = " ".join((ROOT / "docs" / "scaling.md").read_text().split())
    assert f"`FANFOLD_WORKER_CONCURRENCY` ({Settings.model_fields['worker_concurrency'].default})" in text
    assert f"keep up to {POOL_SIZE} connections each, and open up to {POOL_SIZE + POOL_OVERFLOW} under load" in text
    assert "two to four a second while nothing happens" in text
    assert LAST_POLL == 0.5
    assert f"as many as it can, up to {crowd.MOST}, and leaves a quarter" in text
    assert crowd.LEFT == 0.25


def mentions() -> list[str]:
    """The forms of commands that pages name in their text: `fanfold runs decide RUN --approve`."""
    text = "\n".join(page.read_text() for page in PAGES)
    found = re.findall(r"(?:`|^    )fanfold ([^`]+?)(?:`|  #|$)", text, re.MULTILINE)
    return sorted({" ".join(one.split()) for one in found})


@pytest.mark.parametrize("mention", mentions())
def test_a_command_that_a_page_names_has_these_options(mention: str) -> None:
    words, command = mention.split(), typer.main.get_command(app)
    while hasattr(command, "commands") and words:
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts} | {"--version", "--help"}
    assert {word for word in words if word.startswith("--") and word != "--"} <= known


def test_the_chaos_suite_has_the_options_that_the_page_names() -> None:
    named = re.findall(r"python -m tests\.chaos (.*?)(?:  #|$)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    done = subprocess.run([sys.executable, "-m", "tests.chaos", "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert named
    for option in re.findall(r"--[\w-]+", " ".join(named)):
        assert f"{option} " in done.stdout, option


def test_every_place_that_the_pages_name_is_there() -> None:
    for page in [*PAGES, ROOT / "ARCHITECTURE.md"]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
    for name in re.findall(r"`((?:sandboxes|orchestrator|tests|docs)/[\w/.]*)`", (ROOT / "ARCHITECTURE.md").read_text()):
        assert (ROOT / name).exists(), f"ARCHITECTURE.md names {name}"
