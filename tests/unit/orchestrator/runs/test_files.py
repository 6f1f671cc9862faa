"""A run's folder is for this user only, and its secrets show nowhere."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.runs.files import RunFolder, Secrets
from orchestrator.runs.models import Artifact

ARTIFACT = Artifact("run-1", "a", 3, "ab" * 32, datetime.now(UTC))


def test_the_folder_is_for_this_user_only(tmp_path: Path) -> None:
    folder = RunFolder.of(tmp_path / "runs", "run-1")
    folder.create()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_secrets_are_kept_until_they_are_forgotten(tmp_path: Path) -> None:
    folder = RunFolder.of(tmp_path, "run-1")
    folder.create()
    folder.write_secrets(Secrets({"A": "hunter2"}, "key"))
    assert folder.read_secrets() == Secrets({"A": "hunter2"}, "key")
    folder.forget_secrets()
    assert folder.read_secrets() == Secrets()


def test_the_representation_of_secrets_shows_none() -> None:
    assert "hunter2" not in repr(Secrets({"A": "hunter2"}, "hunter2"))


def test_an_artifact_of_the_first_version_is_in_the_folder(tmp_path: Path) -> None:
    folder = RunFolder.of(tmp_path, "run-1")
    folder.create()
    assert folder.earlier_artifact(ARTIFACT) is None
    path = folder.path / "artifacts" / ARTIFACT.sha256
    path.parent.mkdir()
    path.write_bytes(b"old")
    assert folder.earlier_artifact(ARTIFACT) == path
