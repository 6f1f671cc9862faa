"""Freezing takes what the run may have, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import BadInput
from orchestrator.freeze import freeze_run
from orchestrator.runs.files import RunFolder
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from orchestrator.vault import Vault

AGENT = {"prompt": "go", "model": "scripted:script.yaml"}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    folder.mkdir()
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder.of(tmp_path / "runs", "run-1", Vault(Settings(home=tmp_path)))
    made.create()
    return made


def freeze(folder: RunFolder, base: Path, *, granted: Any = (), named: Any = (), environ: Any = None, **spec: Any) -> None:
    freeze_run(RunSpec(**spec), folder, base_dir=base, granted=granted, environ=environ or {}, named=named)


def test_a_granted_secret_is_kept_in_a_private_file_only(folder: RunFolder, base: Path) -> None:
    freeze(folder, base, granted={"MINE"}, environ={"MINE": "v"}, command="x", secrets={"KEY": "${MINE}"})
    assert folder.read_secrets().env == {"KEY": "v"}
    assert (folder.path / "secrets.sealed").stat().st_mode & 0o777 == 0o600
    folder.forget_secrets()
    assert folder.read_secrets().values == []
    assert [path.name for path in folder.path.iterdir()] == []


def test_a_secret_that_was_not_granted_is_refused_though_it_is_set(folder: RunFolder, base: Path) -> None:
    with pytest.raises(BadInput, match="add --secret HOME_KEY"):
        freeze(folder, base, environ={"HOME_KEY": "v"}, command="x", secrets={"KEY": "${HOME_KEY}"})


def test_a_secret_that_is_not_set_is_told(folder: RunFolder, base: Path) -> None:
    with pytest.raises(BadInput, match=r"secrets\.KEY: the variable MINE is not set"):
        freeze(folder, base, granted={"MINE"}, command="x", secrets={"KEY": "${MINE}"})


def test_a_missing_model_key_is_told_before_anything_runs(folder: RunFolder, base: Path) -> None:
    with pytest.raises(BadInput, match="set ANTHROPIC_API_KEY"):
        freeze(folder, base, agent={"prompt": "go", "model": "anthropic:x"})


def test_a_model_file_is_copied(folder: RunFolder, base: Path) -> None:
    (base / "script.yaml").write_text("turns: []")
    freeze(folder, base, agent=AGENT)
    (base / "script.yaml").unlink()
    assert folder.model_file.read_text() == "turns: []"


@pytest.mark.parametrize("name", ["../script.yaml", "link.yaml", "/abs/script.yaml"])
def test_a_task_cannot_name_a_model_file_outside_of_its_folder(folder: RunFolder, base: Path, name: str) -> None:
    (base.parent / "script.yaml").write_text("turns: []")
    (base / "link.yaml").symlink_to("../script.yaml")
    with pytest.raises(BadInput, match="leads out of the task file's folder"):
        freeze(folder, base, agent={"prompt": "go", "model": f"scripted:{name}"})


def test_the_person_who_submits_can(folder: RunFolder, base: Path) -> None:
    outside = base.parent / "script.yaml"
    outside.write_text("turns: []")
    freeze(folder, base, named={"model"}, agent={"prompt": "go", "model": f"scripted:{outside}"})
    assert folder.model_file.read_text() == "turns: []"


def test_a_missing_model_file_is_told(folder: RunFolder, base: Path) -> None:
    with pytest.raises(BadInput, match=r"agent\.model: there is no file 'script.yaml'"):
        freeze(folder, base, agent=AGENT)


def test_inputs_are_frozen(folder: RunFolder, base: Path) -> None:
    (base / "repo").mkdir()
    (base / "repo" / "a").write_text("a")
    freeze(folder, base, command="x", inputs={"path": "repo"})
    assert folder.input_tar.stat().st_size > 0


def test_missing_inputs_are_told(folder: RunFolder, base: Path) -> None:
    with pytest.raises(BadInput, match="repo"):
        freeze(folder, base, command="x", inputs={"path": "repo"})
