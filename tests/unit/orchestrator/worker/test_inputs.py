"""How the inputs of a run are divided where permissions close some places."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import BadInput
from orchestrator.spec import RunSpec
from orchestrator.worker.inputs import placed_inputs
from sandboxes.providers.base import Mount


def spec(*rules: dict[str, Any]) -> RunSpec:
    agent = {"prompt": "Go.", "model": "scripted:s.yaml", "permissions": list(rules)}
    return RunSpec.model_validate({"agent": agent})


def rule(mode: str, *paths: str, operations: Any = ("read", "write")) -> dict[str, Any]:
    return {"operations": list(operations), "paths": list(paths), "mode": mode}


def archive(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(member.name.encode()) if member.isreg() else None)
    return path


def file(name: str, mode: int = 0o644) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.size, found.mode = len(name.encode()), mode
    return found


def link(name: str, target: str) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = tarfile.SYMTYPE, target
    return found


def names(tar: Path) -> list[str]:
    with tarfile.open(tar) as opened:
        return opened.getnames()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where what is laid over closed places goes."""
    made = tmp_path / "closed"
    made.mkdir()
    return made


def test_without_permissions_the_inputs_are_as_they_are(tmp_path: Path) -> None:
    tar = tmp_path / "input.tar"
    inputs = placed_inputs(spec(), tar, tmp_path)
    assert (inputs.tar, inputs.mounts) == (tar, ())
    inputs = placed_inputs(spec(rule("deny", "/usr/share")), tar, tmp_path)
    assert (inputs.tar, inputs.mounts) == (tar, (Mount(target="/usr/share", mode="hidden"),))


def test_what_is_closed_is_laid_over_and_the_rest_is_unpacked(tmp_path: Path, folder: Path) -> None:
    closed = (file("tests/run.sh", 0o755), link("tests/sub/up", "../run.sh"), file("secret/x"))
    tar = archive(tmp_path / "input.tar", file("a.txt"), *closed, file("testsuite"))
    rules = (rule("deny", "tests/**", "new", operations=["write"]), rule("deny", "secret"))
    inputs = placed_inputs(spec(*rules), tar, folder)
    assert names(inputs.tar) == ["a.txt", "testsuite"]
    placed = {mount.target: Path(str(mount.source)) for mount in inputs.mounts}
    assert {mount.mode for mount in inputs.mounts} == {"read-only"}
    assert (placed["/workspace/tests"] / "run.sh").read_text() == "tests/run.sh"
    assert (placed["/workspace/tests"] / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (placed["/workspace/tests"] / "sub/up").readlink() == Path("../run.sh")
    assert list(placed["/workspace/secret"].iterdir()) == []
    assert list(placed["/workspace/new"].iterdir()) == []


def test_a_single_file_can_be_closed(tmp_path: Path, folder: Path) -> None:
    tar = archive(tmp_path / "input.tar", file("lock"), file("key"))
    inputs = placed_inputs(spec(rule("deny", "lock", operations=["write"]), rule("deny", "key")), tar, folder)
    content = {mount.target: Path(str(mount.source)).read_text() for mount in inputs.mounts}
    assert content == {"/workspace/lock": "lock", "/workspace/key": ""}


def test_a_run_without_inputs_has_its_places_closed_all_the_same(tmp_path: Path, folder: Path) -> None:
    inputs = placed_inputs(spec(rule("deny", "secret")), tmp_path / "input.tar", folder)
    [mount] = inputs.mounts
    assert list(Path(str(mount.source)).iterdir()) == []
    assert not inputs.tar.exists()


def test_a_link_cannot_be_closed(tmp_path: Path, folder: Path) -> None:
    tar = archive(tmp_path / "input.tar", link("tests", "/elsewhere"))
    with pytest.raises(BadInput, match="permissions close 'tests', which is a link"):
        placed_inputs(spec(rule("deny", "tests")), tar, folder)


def test_nothing_is_written_behind_a_link_of_a_forged_archive(tmp_path: Path, folder: Path) -> None:
    decoy = tmp_path / "decoy"
    decoy.mkdir()
    tar = archive(tmp_path / "input.tar", link("tests/out", str(decoy)), file("tests/out/x"))
    rules = rule("deny", "tests", operations=["write"])
    with pytest.raises(BadInput, match="behind a link"):
        placed_inputs(spec(rules), tar, folder)
    assert list(decoy.iterdir()) == []
