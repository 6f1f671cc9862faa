"""A run's folder keeps artifacts under names that harm nobody."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from orchestrator.errors import BadInput
from orchestrator.runs.files import RunFolder, Secrets, TooLarge, check_artifact_name, one_piece


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder.of(tmp_path, "run-1")
    made.create()
    return made


async def test_content_is_kept_under_its_hash(folder: RunFolder) -> None:
    artifact = await folder.keep_artifact("run-1", "files/a b.txt", one_piece(b"content"), limit=10)
    assert (artifact.size, artifact.sha256) == (7, hashlib.sha256(b"content").hexdigest())
    assert folder.artifact_path(artifact).read_bytes() == b"content"


async def test_content_over_the_limit_leaves_nothing(folder: RunFolder) -> None:
    with pytest.raises(TooLarge, match="'a' is larger than 3 bytes"):
        await folder.keep_artifact("run-1", "a", one_piece(b"content"), limit=3)
    assert list((folder.path / "artifacts").iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["", "/a", "../a", "a/../b", "a//b", "./a", "a/", "a\nb", "a\x1b[31m", "\udc80", "a\\b", "x" * 256, "a/" * 600 + "a"],
)
def test_a_name_that_could_harm_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be the name of an artifact"):
        check_artifact_name(name)


@pytest.mark.parametrize("name", ["patch.diff", "files/reports/unit tests.xml", "-rf", "ünïcode", "..a", "a..b"])
def test_a_plain_name_is_fine(name: str) -> None:
    check_artifact_name(name)


def test_the_representation_of_secrets_shows_none() -> None:
    assert "hunter2" not in repr(Secrets({"A": "hunter2"}, "hunter2"))
