"""The files of children's models are frozen together, and each child gets its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.client.freezing import packed
from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.freeze import freeze_files
from orchestrator.modelfiles import child_model_file, file_of
from orchestrator.runs.files import INPUT_FILES, RunFolder
from orchestrator.service.installation import Installation
from orchestrator.service.placing import copy_frozen
from orchestrator.service.staging import Staging
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    (folder / "scripts").mkdir(parents=True)
    for name in ("calc", "text", "resolver"):
        (folder / "scripts" / f"{name}.yaml").write_text(f"of {name}")
    return folder


def a_folder(tmp_path: Path, name: str = "run-1") -> RunFolder:
    made = RunFolder.of(tmp_path / "runs", name)
    made.create()
    return made


def fan_out(model: str = "scripted:scripts/${{ item }}.yaml", items: Any = ("calc", "text"), **more: Any) -> RunSpec:
    fields = {"items": items, "agent": {"prompt": "Go.", "model": model}, **more}
    return RunSpec.model_validate({"fan_out": fields})


def freeze(spec: RunSpec, folder: RunFolder, base: Path, named: Any = ()) -> None:
    freeze_files(spec, folder, base_dir=base, named=named)


MERGE = {"rules": [{"path": "**", "policy": "ask"}], "resolver": {"model": "replay:scripts/resolver.yaml"}}


def test_every_child_and_the_resolver_has_its_own_file_though_the_originals_are_gone(tmp_path: Path, base: Path) -> None:
    folder = a_folder(tmp_path)
    freeze(fan_out(merge=MERGE), folder, base)
    for path in (base / "scripts").iterdir():
        path.unlink()
    assert child_model_file(folder, "scripted:scripts/calc.yaml") == b"of calc"
    assert child_model_file(folder, "scripted:scripts/text.yaml") == b"of text"
    assert child_model_file(folder, "replay:scripts/resolver.yaml") == b"of resolver"
    assert [path.name for path in folder.path.iterdir()] == ["models.tar"]
    assert "models.tar" in INPUT_FILES, "so that every worker gets it"


def test_an_agent_has_its_file_as_before_and_its_resolver_another(tmp_path: Path, base: Path) -> None:
    folder = a_folder(tmp_path)
    agent = {"prompt": "Go.", "model": "scripted:scripts/calc.yaml", "merge": MERGE}
    freeze(RunSpec.model_validate({"agent": agent}), folder, base)
    assert folder.model_file.read_text() == "of calc"
    assert child_model_file(folder, "replay:scripts/resolver.yaml") == b"of resolver"


def test_the_same_task_freezes_to_the_same_bytes(tmp_path: Path, base: Path) -> None:
    first, second = a_folder(tmp_path), a_folder(tmp_path, "run-2")
    freeze(fan_out(), first, base)
    (base / "scripts" / "calc.yaml").touch()
    freeze(fan_out(), second, base)
    assert first.models_file.read_bytes() == second.models_file.read_bytes()


def test_a_recorded_model_is_frozen_only_where_what_it_records_stands_in_a_file(tmp_path: Path, base: Path) -> None:
    assert [file_of(model) for model in ("record:c=scripted:s", "record:c=openai:x", "openai:x")] == ["s", None, None]
    folder = a_folder(tmp_path)
    freeze(fan_out("record:c.yaml=scripted:scripts/${{ item }}.yaml", items=["calc"]), folder, base)
    assert child_model_file(folder, "record:c.yaml=scripted:scripts/calc.yaml") == b"of calc"


@pytest.mark.parametrize("spec", [{"command": "x"}, {"fan_out": {"items": ["a"], "command": "x"}}])
def test_without_such_models_there_is_no_file(tmp_path: Path, base: Path, spec: dict[str, Any]) -> None:
    folder = a_folder(tmp_path)
    freeze(RunSpec.model_validate(spec), folder, base)
    assert list(folder.path.iterdir()) == []


@pytest.mark.parametrize("name", ["../script.yaml", "link.yaml", "/abs/script.yaml"])
def test_a_child_cannot_name_a_file_outside_of_the_tasks_folder(tmp_path: Path, base: Path, name: str) -> None:
    (base.parent / "script.yaml").write_text("turns: []")
    (base / "link.yaml").symlink_to("../script.yaml")
    with pytest.raises(BadInput, match=f"model 'scripted:{name}': '{name}' leads out of the task file's folder"):
        freeze(fan_out("scripted:${{ item }}", items=[name]), a_folder(tmp_path), base)


def test_a_missing_file_is_told_by_the_model_that_wants_it(tmp_path: Path, base: Path) -> None:
    with pytest.raises(BadInput, match=r"model 'scripted:scripts/c.yaml': there is no file 'scripts/c.yaml'"):
        freeze(fan_out(items=["calc", "c"]), a_folder(tmp_path), base)


def test_files_have_a_size_alone_and_together(tmp_path: Path, base: Path) -> None:
    for number in range(5):
        with (base / "scripts" / f"{number}.yaml").open("wb") as file:
            file.truncate(60 * 1024**2)
    with pytest.raises(BadInput, match="larger than 256 MiB together"):
        freeze(fan_out(items=list(range(5))), a_folder(tmp_path), base)
    with (base / "scripts" / "0.yaml").open("wb") as file:
        file.truncate(65 * 1024**2)
    with pytest.raises(BadInput, match=r"'scripts/0.yaml' is larger than 64 MiB"):
        freeze(fan_out(items=[0]), a_folder(tmp_path, "run-2"), base)


def test_a_file_that_was_not_frozen_is_told(tmp_path: Path, base: Path) -> None:
    folder = a_folder(tmp_path)
    with pytest.raises(InfrastructureError, match="cannot be had from"):
        child_model_file(folder, "scripted:scripts/calc.yaml")
    freeze(fan_out(), folder, base)
    with pytest.raises(InfrastructureError, match="is not in"):
        child_model_file(folder, "scripted:scripts/other.yaml")


def test_a_run_of_the_same_task_takes_them_over(tmp_path: Path, base: Path) -> None:
    first, second = a_folder(tmp_path), a_folder(tmp_path, "run-2")
    freeze(fan_out(), first, base)
    copy_frozen(fan_out(), first, second)
    assert child_model_file(second, "scripted:scripts/text.yaml") == b"of text"


def test_runs_that_are_prepared_together_share_them_only_when_they_have_the_same(tmp_path: Path, base: Path) -> None:
    staging = Staging(Installation(Settings(home=tmp_path)))
    folders = [a_folder(tmp_path, f"run-{number}") for number in range(3)]
    for folder, items in zip(folders, (["calc"], ["calc"], ["text"]), strict=True):
        staging.freeze(fan_out(items=items), folder, base_dir=base, named=())
    staging.close()
    assert child_model_file(folders[1], "scripted:scripts/calc.yaml") == b"of calc"
    assert child_model_file(folders[2], "scripted:scripts/text.yaml") == b"of text"


def test_a_task_that_is_sent_elsewhere_cannot_have_such_files(base: Path) -> None:
    with pytest.raises(BadInput, match="use PROVIDER:NAME"), packed(fan_out(), base_dir=base):
        pass
