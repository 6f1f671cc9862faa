"""Getting what a run left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Task = Callable[..., Path]

TASK = "command: mkdir -p out; echo one > out/a.txt; echo two > out/b.txt\noutputs: {files: ['out/*'], patch: true}\n"
NAMES = ["files/out/a.txt", "files/out/b.txt", "patch.diff"]


@pytest.fixture
def run(fanfold: Any, task: Task) -> str:
    return json.loads(fanfold("run", task(TASK), "-o", "json").stdout)["run"]["id"]


def test_the_list_has_a_line_for_each_artifact(fanfold: Any, run: str) -> None:
    header, *lines = fanfold("runs", "artifacts", run).stdout.splitlines()

    assert header.split() == ["NAME", "SIZE", "WHERE"]
    assert [line.split()[0] for line in lines] == NAMES
    assert all(Path(line.split()[-1]).is_file() for line in lines)


def test_artifacts_are_copied_under_their_names(anywhere: Any, run: str, tmp_path: Path) -> None:
    done = anywhere("runs", "artifacts", run, "--out", tmp_path / "left", "-o", "json")

    copies = {item["name"]: Path(item["path"]) for item in json.loads(done.stdout)}
    assert list(copies) == NAMES
    assert copies["files/out/a.txt"] == tmp_path / "left/files/out/a.txt"
    assert copies["files/out/a.txt"].read_text() == "one\n"
    assert "+two" in copies["patch.diff"].read_text()


def test_what_has_changed_on_the_disk_is_an_error_and_not_a_copy(fanfold: Any, run: str, tmp_path: Path) -> None:
    listed = json.loads(fanfold("runs", "artifacts", run, "-o", "json").stdout)
    place = next(Path(item["path"]) for item in listed if item["name"] == "files/out/a.txt")
    content = place.read_bytes()
    place.write_bytes(b"owe\n")

    done = fanfold("runs", "artifacts", run, "--out", tmp_path / "left")
    place.write_bytes(content)

    assert done.returncode == 3
    assert "has changed where it is stored" in done.stderr
    assert not (tmp_path / "left/files/out/a.txt").exists()


def test_a_run_without_artifacts_says_so(anywhere: Any, task: Task) -> None:
    run = json.loads(anywhere("run", task("command: 'true'"), "-o", "json").stdout)["run"]["id"]

    assert anywhere("runs", "artifacts", run).stdout == "the run has left nothing\n"


def test_a_wrong_address_is_refused_in_words(fanfold: Any, task: Task, run: str) -> None:
    done = fanfold("runs", "artifacts", run, FANFOLD_ARTIFACTS_URL="nonsense://x")

    assert done.returncode == 2
    assert "FANFOLD_ARTIFACTS_URL 'nonsense://x'" in done.stderr
