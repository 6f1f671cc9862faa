"""Every command and snippet in README and docs is run, so that none goes stale."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.spec import load_task

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TARGETS = {"make demo", "make test", "make check", "make bench"}
SECONDS = 120


def blocks(language):
    found = [(page, text) for page in PAGES for kind, text in BLOCK.findall(page.read_text()) if kind == language]
    return [pytest.param(text, id=f"{page.name}-{number}") for number, (page, text) in enumerate(found)]


def commands(text):
    return [line.split("  #")[0].split(" # ")[0].strip() for line in text.splitlines() if line.strip()]


def repository(folder):
    """A folder `repo` with a test suite, and the files that the pages write."""
    (folder / "repo").mkdir()
    (folder / "repo" / "README").write_text("A library.\n")
    (folder / "repo" / "test_it.py").write_text(
        "import unittest\n\n\nclass Case(unittest.TestCase):\n    def test_it(self):\n        pass\n"
    )
    for page in PAGES:
        for kind, text in BLOCK.findall(page.read_text()):
            name = re.match(r"# (\S+\.yaml)\n", text)
            if kind == "yaml" and name:
                (folder / name[1]).write_text(text)
    return folder


@pytest.mark.parametrize("text", blocks("sh"))
def test_every_command_works(text, fanfold, tmp_path):
    folder = repository(tmp_path)
    for command in commands(text):
        if command in TARGETS:
            target = command.removeprefix("make ")
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        elif command.startswith("fanfold "):
            done = fanfold(*command.split()[1:], cwd=folder)
            assert done.returncode == 0, done.stderr
        else:
            done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
            assert done.returncode == 0, done.stderr
            assert "test_it" in done.stdout


@pytest.mark.parametrize("text", [param for param in blocks("yaml") if "script.yaml\nturns" not in param.values[0]])
def test_every_task_file_is_one(text, fanfold, tmp_path):
    folder = repository(tmp_path)
    (folder / "task.yaml").write_text(text)
    spec = load_task(folder / "task.yaml")
    granted = [option for name in spec.secret_variables.values() for option in ("--secret", name)]
    done = fanfold(
        "run", folder / "task.yaml", "--dry-run", *granted, MY_TOKEN="x", ANTHROPIC_API_KEY="x", cwd=folder
    )
    assert done.returncode == 0, done.stderr


def test_the_script_in_the_docs_plays(fanfold, tmp_path):
    folder = repository(tmp_path)
    (folder / "play.yaml").write_text(
        "agent: {model: 'scripted:script.yaml', prompt: Look around.}\ninputs: {path: ./repo}\n"
    )
    done = fanfold("run", folder / "play.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "There is a README" in done.stdout


@pytest.mark.parametrize("text", blocks("python"))
def test_every_snippet_runs(text):
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    for shown in re.findall(r"print\(.*\)  # (.+)", text) or ["hello from a sandbox"]:
        assert shown in done.stdout


def test_the_demo_mends_the_library_and_its_patch_applies(fanfold, tmp_path):
    program = tmp_path / "bin" / "fanfold"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m orchestrator.cli.main "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["sh", ROOT / "scripts" / "demo.sh", program.parent],
        capture_output=True, text=True, env=fanfold.environment(), timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Ran 14 tests" in done.stderr
    assert done.stderr.rstrip().endswith("OK")


def test_every_place_that_the_pages_name_is_there():
    for page in [*PAGES, ROOT / "ARCHITECTURE.md"]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
    for name in re.findall(r"`((?:sandboxes|orchestrator|tests|docs)/[\w/.]*)`", (ROOT / "ARCHITECTURE.md").read_text()):
        assert (ROOT / name).exists(), f"ARCHITECTURE.md names {name}"
