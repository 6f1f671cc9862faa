"""A task's Dockerfile is frozen with the run: from the task's folder alone, and told by its key when it cannot be."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import BadInput
from orchestrator.imagefiles import freeze_dockerfile
from orchestrator.modelfiles import check_sendable
from orchestrator.runs.files import INPUT_FILES
from orchestrator.sandboxspec import TaskDockerfile
from orchestrator.spec import RunSpec


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    (folder / "env").mkdir(parents=True)
    (folder / "env" / "Dockerfile").write_text("FROM a\nCOPY f /f\n")
    (folder / "env" / "f").write_text("f")
    (folder / "g").write_text("g")
    (tmp_path / "secret").write_text("FROM a\n")
    return folder


def freeze(base: Path, *, outside: bool = False, **asked: Any) -> list[str]:
    target = base.parent / "image.tar"
    freeze_dockerfile(TaskDockerfile(**asked), target, base, outside=outside)
    with tarfile.open(target) as packed:
        return packed.getnames()


def test_the_dockerfile_comes_with_its_folder_or_the_context_that_is_named(base: Path) -> None:
    assert freeze(base, path="env/Dockerfile") == ["Dockerfile", "context", "context/Dockerfile", "context/f"]
    (base.parent / "image.tar").unlink()
    assert "context/g" in freeze(base, path="env/Dockerfile", context=".")
    assert "image.tar" in INPUT_FILES, "so that every worker gets it"


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ({"path": "../secret"}, "path"),
        ({"path": "/etc/passwd"}, "path"),
        ({"path": "missing"}, "path"),
        ({"path": "env/Dockerfile", "context": ".."}, "context"),
    ],
)
def test_what_is_not_in_the_tasks_folder_is_refused_by_its_key(base: Path, asked: dict[str, str], key: str) -> None:
    with pytest.raises(BadInput, match=rf"sandbox\.dockerfile\.{key}"):
        freeze(base, **asked)


def test_what_a_person_names_may_be_anywhere(base: Path) -> None:
    assert "Dockerfile" in freeze(base, path=str(base.parent / "secret"), context="env", outside=True)


def test_a_dockerfile_that_is_refused_leaves_nothing_frozen(base: Path) -> None:
    (base / "env" / "Dockerfile").write_text("FROM a\nADD http://x /x\n")
    with pytest.raises(BadInput, match=r"sandbox\.dockerfile: Dockerfile, line 2: ADD"):
        freeze(base, path="env/Dockerfile")
    assert not (base.parent / "image.tar").exists()


def test_the_short_form_is_its_path() -> None:
    spec = RunSpec.model_validate({"name": "x", "command": "x", "sandbox": {"provider": "docker", "dockerfile": "D"}})
    assert spec.sandbox.dockerfile == TaskDockerfile(path="D")
    made = spec.sandbox_spec(Path("/frozen/image.tar")).dockerfile
    assert made is not None
    assert made.archive == "/frozen/image.tar"


def test_an_image_and_a_dockerfile_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="one of 'image' and 'dockerfile'"):
        RunSpec.model_validate({"name": "x", "command": "x", "sandbox": {"image": "a", "dockerfile": "D"}})


def test_over_the_network_it_is_refused_with_what_to_do() -> None:
    spec = RunSpec.model_validate({"name": "x", "command": "x", "sandbox": {"dockerfile": "D"}})
    with pytest.raises(BadInput, match=r"task\.sandbox\.dockerfile: .*sandbox\.image"):
        check_sendable(spec)
