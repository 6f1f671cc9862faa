"""What a person gets from `fanfold merge`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_cli import problem

TEXT = "".join(f"line {number}\n" for number in range(10))
CHANGES = {"a": ("line 1", "ONE"), "b": ("line 8", "EIGHT"), "c": ("line 1", "UNO")}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a base, and what three made of it: a and b go together, a and c do not."""
    for name in ("base", *CHANGES):
        folder = tmp_path / name
        (folder / "src").mkdir(parents=True)
        (folder / "src" / "f").write_text(TEXT.replace(*CHANGES.get(name, ("", ""))))
        (folder / "run").write_text("#!/bin/sh\n")
        (folder / "run").chmod(0o755)
        (folder / "link").symlink_to("src/f")
        (folder / f"by-{name}").write_text(name)
        (folder / ".git").mkdir()
        (folder / ".git" / "config").write_text(name)
    return tmp_path


def test_folders_that_go_together_become_one(fanfold: Any, place: Path) -> None:
    done = fanfold("merge", "base", "a", "b", "--into", "out", cwd=place)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "out: 4 files changed by 2 children, 0 conflicts left\n"
    out = place / "out"
    assert (out / "src" / "f").read_text() == TEXT.replace("line 1", "ONE").replace("line 8", "EIGHT")
    assert os.access(out / "run", os.X_OK)
    assert (out / "link").readlink() == Path("src/f")
    assert {path.name for path in out.iterdir()} == {"src", "run", "link", "by-a", "by-b"}
    assert {path.name for path in place.iterdir()} == {"base", "out", *CHANGES}


def test_a_conflict_ends_with_1_and_leaves_markers(fanfold: Any, place: Path) -> None:
    done = fanfold("merge", "base", "a", "c", "--into", "out", "--report", "report.md", cwd=place)

    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0] == "conflict  'src/f'  content, markers (a, c)"
    assert "<<<<<<< a\nONE\n||||||| base\nline 1\n=======\nUNO\n>>>>>>> c\n" in (place / "out" / "src" / "f").read_text()
    assert "**To be decided**" in (place / "report.md").read_text()


def test_a_policy_decides(fanfold: Any, place: Path) -> None:
    done = fanfold("merge", "base", "a", "c", "--into", "out", "--policy", "*=ours", "--policy", "src/=theirs", cwd=place)

    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "settled   'src/f'  content, theirs (a, c)"
    assert (place / "out" / "src" / "f").read_text() == TEXT.replace("line 1", "UNO")


def test_a_policy_can_be_a_file(fanfold: Any, place: Path) -> None:
    (place / "policy.yaml").write_text("exclude: [run]\nrules:\n  - {path: 'src/', policy: union}\n")
    done = fanfold("merge", "base", "a", "c", "--into", "out", "--policy", "policy.yaml", "-o", "json", cwd=place)

    assert done.returncode == 0
    [conflict] = json.loads(done.stdout)["conflicts"]
    assert (conflict["path"], conflict["settled"], conflict["children"]) == ("src/f", True, ["a", "c"])
    assert "ONE\nUNO\n" in (place / "out" / "src" / "f").read_text()


def test_a_policy_that_allows_no_conflict_writes_nothing_but_the_report(fanfold: Any, place: Path) -> None:
    done = fanfold("merge", "base", "a", "c", "--into", "out", "--policy", "src/=fail", "--report", "r.json", cwd=place)

    assert done.returncode == 1
    assert problem(done) == "the policy allows no conflict at 'src/f'; nothing was written to out"
    assert not (place / "out").exists()
    assert json.loads((place / "r.json").read_text())["refused"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "a", "--into", "out"], "BASE nowhere: there is no such folder"),
        (["base", "nowhere", "--into", "out"], "CHILD nowhere: there is no such folder"),
        (["base", "a", "--into", "b"], "--into b: there is something already"),
        (["base", "a", "--into", "no/where"], "--into no/where: its parent is no folder"),
        (["base", "a", "a", "--into", "out"], "two children have the same name: a"),
        (["base", "a", "--into", "out", "--report", "no/where"], "--report no/where: no file can be written there"),
        (["base", "a", "--into", "out", "--policy", "*=theirss"], "'theirss' is no policy"),
        (["base", "a", "--into", "out", "--policy", "no.yaml"], "no.yaml: there is no such file"),
    ],
)
def test_bad_input_ends_with_2_and_writes_nothing(fanfold: Any, place: Path, arguments: list[str], said: str) -> None:
    before = set(place.rglob("*"))
    done = fanfold("merge", *arguments, cwd=place)

    assert done.returncode == 2
    assert said in problem(done)
    assert set(place.rglob("*")) == before


def test_an_empty_folder_may_be_there_and_names_may_be_of_any_bytes(fanfold: Any, place: Path) -> None:
    (place / "out").mkdir()
    name = os.fsdecode(b"\xff\n")
    for child in ("a", "c"):
        (place / child / name).write_text(child)
    done = fanfold("merge", "base", "a", "c", "--into", "out", "--report", "r.md", cwd=place)

    assert done.returncode == 1
    assert r"'\udcff\n'  add/add" in done.stdout
    assert (place / "out" / name).exists()
