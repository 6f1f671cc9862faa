"""Artifacts in a folder of the person who ran the task."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.cli.artifacts import copied, prepare
from orchestrator.cli.door import Outcome
from orchestrator.cli.summary import Kept
from orchestrator.cli.tally import Tally
from orchestrator.errors import BadInput
from orchestrator.runs.models import Artifact, Run


@pytest.fixture
def outcome(tmp_path: Path, a_run: Callable[..., Run]) -> Callable[[str], Outcome]:
    """A run that left one artifact of this name."""
    content = tmp_path / "content"
    content.write_bytes(b"new")
    return lambda name: Outcome(a_run(), Tally(), [Kept(Artifact("run-1", name, 3, "", datetime.now(UTC)), content)])


def test_an_artifact_is_copied_under_its_name(tmp_path: Path, outcome: Callable[[str], Outcome]) -> None:
    out = prepare(tmp_path / "made" / "out")

    kept = copied(outcome("files/reports/a.xml"), out).kept

    assert kept[0].path == out / "files/reports/a.xml"
    assert kept[0].path.read_bytes() == b"new"
    assert kept[0].path.stat().st_mode & 0o600 == 0o600
    assert sorted(path.name for path in (out / "files/reports").iterdir()) == ["a.xml"]


@pytest.mark.parametrize("name", ["../escape", "/etc/escape", "a/../../escape", "", "a\0b"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, outcome: Callable[[str], Outcome], name: str) -> None:
    with pytest.raises(BadInput, match="leads out"):
        copied(outcome(name), prepare(tmp_path / "out"))


def test_a_link_is_replaced_and_never_written_through(tmp_path: Path, outcome: Callable[[str], Outcome]) -> None:
    precious = tmp_path / "precious"
    precious.write_text("old")
    out = prepare(tmp_path / "out")
    (out / "patch.diff").symlink_to(precious)

    copied(outcome("patch.diff"), out)

    assert precious.read_text() == "old"
    assert (out / "patch.diff").read_text() == "new"


def test_a_folder_that_is_a_link_to_elsewhere_is_refused(tmp_path: Path, outcome: Callable[[str], Outcome]) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    out = prepare(tmp_path / "out")
    (out / "files").symlink_to(elsewhere)

    with pytest.raises(BadInput, match="a link that leads out"):
        copied(outcome("files/x"), out)

    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(BadInput, match=r"--out .*cannot be made"):
        prepare(tmp_path / "file" / "out")
