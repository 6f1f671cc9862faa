"""A run's folder is for this user only, and its secrets show nowhere."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.runs.files import RunFolder, Secrets
from orchestrator.runs.models import Artifact
from orchestrator.settings import Settings
from orchestrator.vault import Vault

ARTIFACT = Artifact("run-1", "a", 3, "ab" * 32, datetime.now(UTC))


def test_the_folder_is_for_this_user_only(tmp_path: Path) -> None:
    folder = RunFolder.of(tmp_path / "runs", "run-1")
    folder.create()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder.of(tmp_path / "runs", "run-1", Vault(Settings(home=tmp_path)))
    made.create()
    return made


def test_secrets_are_kept_until_they_are_forgotten(folder: RunFolder) -> None:
    folder.write_secrets(Secrets({"A": "hunter2"}, "key"))
    assert folder.read_secrets() == Secrets({"A": "hunter2"}, "key")
    folder.forget_secrets()
    assert folder.read_secrets() == Secrets()


def test_no_file_of_a_run_shows_its_secrets(folder: RunFolder) -> None:
    folder.write_secrets(Secrets({"HUNTER": "hunter2"}, "hunter2"))
    [file] = folder.path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"hunter2" not in file.read_bytes()
    assert b"HUNTER" not in file.read_bytes()


def test_secrets_of_another_key_are_an_error_and_not_none(folder: RunFolder, tmp_path: Path) -> None:
    folder.write_secrets(Secrets({"A": "hunter2"}))
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(InfrastructureError, match="set FANFOLD_SECRET_KEY"):
        RunFolder(folder.path, Vault(Settings(home=other))).read_secrets()


def test_without_secrets_there_is_neither_a_file_nor_a_key(folder: RunFolder, tmp_path: Path) -> None:
    folder.write_secrets(Secrets())
    assert folder.read_secrets() == Secrets()
    assert list(folder.path.iterdir()) == []
    assert not (tmp_path / "secret.key").exists()


def test_a_run_that_waited_while_fanfold_was_replaced_has_its_secrets(folder: RunFolder) -> None:
    (folder.path / "secrets.json").write_text('{"env": {"A": "hunter2"}, "model_key": null}')
    assert folder.read_secrets() == Secrets({"A": "hunter2"})
    folder.forget_secrets()
    assert list(folder.path.iterdir()) == []


def test_the_representation_of_secrets_shows_none() -> None:
    assert "hunter2" not in repr(Secrets({"A": "hunter2"}, "hunter2"))


def test_an_artifact_of_the_first_version_is_in_the_folder(folder: RunFolder) -> None:
    assert folder.earlier_artifact(ARTIFACT) is None
    path = folder.path / "artifacts" / ARTIFACT.sha256
    path.parent.mkdir()
    path.write_bytes(b"old")
    assert folder.earlier_artifact(ARTIFACT) == path
