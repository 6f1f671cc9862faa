"""Artifacts in a folder of the person who ran the task."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import pytest

from orchestrator.cli.artifacts import copied, prepare
from orchestrator.cli.summary import Kept
from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.runs.models import Artifact


def kept(name: str, content: Callable[[], BinaryIO] = lambda: BytesIO(b"new")) -> list[Kept]:
    """One artifact of this name, in a bucket."""
    return [Kept(Artifact("run-1", name, 3, "", datetime.now(UTC)), "s3://bucket/ab/cd", content)]


def test_an_artifact_is_copied_under_its_name(tmp_path: Path) -> None:
    out = prepare(tmp_path / "made" / "out")

    (copy,) = copied(kept("files/reports/a.xml"), out)

    target = out / "files/reports/a.xml"
    assert copy.place == target
    with copy.content() as content:
        assert target.read_bytes() == content.read() == b"new"
    assert target.stat().st_mode & 0o600 == 0o600
    assert sorted(path.name for path in (out / "files/reports").iterdir()) == ["a.xml"]


@pytest.mark.parametrize("name", ["../escape", "/etc/escape", "a/../../escape", "", "a\0b"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="leads out"):
        copied(kept(name), prepare(tmp_path / "out"))


def test_a_link_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("old")
    out = prepare(tmp_path / "out")
    (out / "patch.diff").symlink_to(precious)

    copied(kept("patch.diff"), out)

    assert precious.read_text() == "old"
    assert (out / "patch.diff").read_text() == "new"


def test_a_folder_that_is_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    out = prepare(tmp_path / "out")
    (out / "files").symlink_to(elsewhere)

    with pytest.raises(BadInput, match="a link that leads out"):
        copied(kept("files/x"), out)

    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(BadInput, match=r"--out .*cannot be made"):
        prepare(tmp_path / "file" / "out")


def test_content_that_cannot_be_had_leaves_what_is_there(tmp_path: Path) -> None:
    def fail() -> BinaryIO:
        raise InfrastructureError("the bucket is gone")

    out = prepare(tmp_path / "out")
    (out / "patch.diff").write_text("old")

    with pytest.raises(InfrastructureError, match="the bucket is gone"):
        copied(kept("patch.diff", fail), out)

    assert [path.read_text() for path in out.iterdir()] == ["old"]


def test_content_that_turns_out_wrong_while_it_is_copied_leaves_what_is_there(tmp_path: Path) -> None:
    class Changed(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise InfrastructureError("the content has changed")

    out = prepare(tmp_path / "out")
    (out / "patch.diff").write_text("old")

    with pytest.raises(InfrastructureError, match="has changed"):
        copied(kept("patch.diff", Changed), out)

    assert [path.read_text() for path in out.iterdir()] == ["old"]
