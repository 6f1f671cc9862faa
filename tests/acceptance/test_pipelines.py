"""The steps of action.yml and ci/gitlab.yml, carried out here with the variables that the platforms set."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import typer
import yaml

from ci.task import outputs
from orchestrator.cli.app import app
from tests.acceptance.conftest import Fanfold
from tests.acceptance.pages import ROOT, files, write_programs

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
GITLAB = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())
PAGE = ROOT / "docs" / "ci.md"
INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
OUTPUT = re.compile(r"steps\.([\w-]+)\.outputs\.([\w-]+)")
SECONDS = 100
HOSTILE = r"""
command: "echo ::error::from the sandbox; printf '```\\n<b>x</b>\\n' >note; exit 3"
inputs: {path: ./repo}
"""

Task = Callable[..., Path]


@dataclass
class Runner:
    """What GitHub's runner does for a composite action: variables, expressions, and files that steps write to."""

    folder: Path
    environ: dict[str, str]
    checkout: Path = ROOT

    def step(self, number: int, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Carry out one step that is a script."""
        step = ACTION["runs"]["steps"][number]
        given = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | inputs
        variables = {name: INPUT.sub(lambda found: given[found[1]], text) for name, text in step["env"].items()}
        platform = {
            "GITHUB_ACTIONS": "true", "GITHUB_ACTION_PATH": str(self.checkout), "RUNNER_TEMP": str(self.folder),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"), "GITHUB_OUTPUT": str(self.folder / "outputs"),
            "GITHUB_PATH": str(self.folder / "path"),
        }  # fmt: skip
        return subprocess.run(
            ["sh", "-e", "-c", step["run"]], cwd=self.folder, env={**self.environ, **platform, **variables},
            capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip

    @property
    def outputs(self) -> dict[str, str]:
        """What the steps have put out."""
        return dict(line.split("=", 1) for line in (self.folder / "outputs").read_text().splitlines())


@pytest.fixture
def environ(fanfold: Fanfold, tmp_path: Path) -> dict[str, str]:
    """A job's environment, in which `fanfold` is this checkout's."""
    write_programs(tmp_path / "bin")
    return fanfold.environment(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")


@pytest.fixture
def runner(environ: dict[str, str], tmp_path: Path) -> Runner:
    return Runner(tmp_path, environ)


def test_a_task_leaves_its_report_its_patch_and_a_summary(runner: Runner, task: Task) -> None:
    path = task("name: mend\ncommand: echo mended >note\ninputs: {path: ./repo}\n", repo__note="broken\n")

    done = runner.step(1, task=str(path))

    assert done.returncode == 0, done.stderr
    told = runner.outputs
    assert set(told) == {"run", "status", "exit-code", "out", "junit", "patch"}
    assert (told["status"], told["exit-code"]) == ("success", "0")
    assert "+mended" in Path(told["patch"]).read_text()
    assert ET.parse(told["junit"]).getroot().get("tests") == "1"
    assert json.loads((Path(told["out"]) / "run.json").read_text())["run"]["id"] == told["run"]
    summary = (runner.folder / "summary").read_text()
    assert summary.startswith("### Fanfold: `mend` ended as `success`\n")
    assert "```diff\n" in summary


def test_options_of_the_run_are_inputs_of_the_action(runner: Runner, task: Task, tmp_path: Path) -> None:
    path = task("command: cp note copy; test $TOKEN = x\nsecrets: {TOKEN: '${MY_TOKEN}'}\noutputs: {files: [copy]}\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "note").write_text("other\n")
    runner.environ["MY_TOKEN"] = "x"
    done = runner.step(1, task=str(path), path="other", provider="local", secrets="MY_TOKEN", out="left")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "left" / "files" / "copy").read_text() == "other\n"


def test_what_a_sandbox_prints_gives_no_orders_and_stays_text(runner: Runner, task: Task) -> None:
    done = runner.step(1, task=str(task(HOSTILE, repo__note="x\n")))

    assert done.returncode == 1
    first, *_, last = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert first.removeprefix("::stop-commands::") == last.strip(":")
    assert "::error::" in done.stderr
    assert runner.outputs["status"] == "error"
    summary = (runner.folder / "summary").read_text()
    assert "\n````diff\n" in summary
    assert summary.index("+<b>x</b>") < summary.index("\n````\n")


def test_a_task_that_cannot_be_run_says_so_in_the_summary(runner: Runner) -> None:
    done = runner.step(1, task="nowhere.yaml")
    assert done.returncode == 2
    assert "nowhere.yaml" in done.stderr
    assert (runner.folder / "summary").read_text().startswith("### Fanfold: no run (exit code 2)")
    assert runner.outputs["patch"] == runner.outputs["run"] == ""


def test_no_task_is_refused_with_what_to_do(runner: Runner) -> None:
    done = runner.step(1, task="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("task: RUN_TASK names no task: set it")


def test_the_install_step_gives_later_steps_the_command(runner: Runner) -> None:
    """Without what Fanfold needs, which the other steps have: its wheel is made from a checkout, and its command answers."""
    runner.checkout = runner.folder / "checkout"
    for name in ("sandboxes", "orchestrator", "ci"):
        shutil.copytree(ROOT / name, runner.checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, runner.checkout)
    runner.environ["PIP_NO_DEPS"] = "1"
    done = runner.step(0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fanfold ")
    assert (Path((runner.folder / "path").read_text().strip()) / "fanfold").is_file()


def test_the_action_calls_what_is_there() -> None:
    steps = ACTION["runs"]["steps"]
    text = (ROOT / "action.yml").read_text()
    assert {found[1] for found in re.finditer(r"inputs\.([\w-]+)", text)} == set(ACTION["inputs"])
    for name in re.findall(r"\$GITHUB_ACTION_PATH/([\w./]+)", text):
        assert (ROOT / name).is_file(), name
    ids = {step["id"] for step in steps if "id" in step}
    for step, name in OUTPUT.findall(text):
        assert step in ids
        assert name in outputs(0, None, Path())
    # An expression in a script would be put into it as it is: inputs come as variables.
    assert not any("${{" in step.get("run", "") for step in steps)
    assert set(ACTION["inputs"]["extras"]["default"].split(",")) <= extras()


def extras() -> set[str]:
    text = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    return set(re.findall(r"^(\w+) = ", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("github-actions", "action.yml"), ("gitlab-ci", "ci/gitlab.yml"),
        ("github-workflows", "pipeline-github.yaml"), ("gitlab-ci", "pipeline-gitlab.yaml"),
    ],
)  # fmt: skip
def test_the_platforms_schemas_know_what_is_written(schema: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / Path(name).name
    path.write_text(files(PAGE).get(name) or (ROOT / name).read_text())
    done = subprocess.run(
        [Path(sys.executable).with_name("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", path],
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_page_uses_inputs_and_outputs_that_there_are() -> None:
    workflow = yaml.safe_load(files(PAGE)["pipeline-github.yaml"])
    (step,) = [one for one in workflow["jobs"]["mend"]["steps"] if one.get("uses", "").startswith("OWNER/")]
    assert {"task"} <= set(step["with"]) <= set(ACTION["inputs"])
    text = PAGE.read_text()
    assert {name for _, name in OUTPUT.findall(text)} <= set(ACTION["outputs"])
    for name, one in ACTION["inputs"].items():
        assert f"`{name}`" in text
        assert f"`{one['default']}`" in text if name in ("out", "extras", "artifact") else "default" in one or one["required"]


def test_gitlabs_job_leaves_what_it_keeps(environ: dict[str, str], task: Task, tmp_path: Path) -> None:
    job = yaml.safe_load(files(PAGE)["pipeline-gitlab.yaml"])["mend"]
    assert job["extends"] in GITLAB
    template = GITLAB[job["extends"]]
    assert set(job["variables"]) <= set(template["variables"])
    path = task("name: mend\ncommand: exit 3\n")
    (script,) = template["script"]
    script = script.replace("/usr/local/lib/fanfold/", f"{ROOT}/ci/").replace("python ", f"{sys.executable} ")

    done = subprocess.run(
        ["sh", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=SECONDS,
        env={**environ, **template["variables"], "RUN_TASK": str(path), "GITLAB_CI": "true"},
    )  # fmt: skip

    assert done.returncode == 1, done.stderr
    assert "::" not in done.stdout
    kept = template["artifacts"]["reports"]["junit"].replace("$RUN_OUT", template["variables"]["RUN_OUT"])
    assert ET.parse(tmp_path / kept).getroot().get("failures") == "1"


def test_the_script_gives_the_command_line_options_that_it_has() -> None:
    run: Any = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    known = {option for parameter in run.params for option in parameter.opts}
    assert set(re.findall(r'"(--\w+)"', (ROOT / "ci" / "task.py").read_text())) <= known
