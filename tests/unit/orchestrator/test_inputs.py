"""Freezing what a task names: everything that is inside, nothing that is not."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from orchestrator.errors import BadInput
from orchestrator.inputs import freeze
from orchestrator.spec import InputSpec
from tests.unit.orchestrator.repositories import git


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The task file's folder, with a folder `repo` in it; beside it lies what the task must not get."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    folder = tmp_path / "task" / "repo"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text("print()\n")
    return folder.parent


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of the run."""
    folder = tmp_path / "home" / "runs" / "1"
    folder.mkdir(parents=True)
    return folder


def names(run: Path) -> list[str]:
    with tarfile.open(run / "input.tar") as tar:
        return tar.getnames()


def unpack(run: Path, folder: Path) -> Path:
    with tarfile.open(run / "input.tar") as tar:
        tar.extractall(folder, filter="fully_trusted")
    return folder


def test_a_folder_inside_becomes_the_workspace(base: Path, run: Path) -> None:
    (base / "repo" / "sub").mkdir()
    (base / "repo" / "link").symlink_to("main.py")
    freeze(InputSpec(path="./repo"), base, run)
    assert names(run) == ["link", "main.py", "sub"]
    assert json.loads((run / "input.json").read_text()) == {"kind": "path", "source": "./repo"}


def test_the_task_files_own_folder_may_be_the_workspace(base: Path, run: Path) -> None:
    freeze(InputSpec(path="."), base, run)
    assert names(run) == ["repo", "repo/main.py"]


def test_excluded_names_are_left_out(base: Path, run: Path) -> None:
    (base / "repo" / "node_modules").mkdir()
    freeze(InputSpec(path="repo", exclude=("node_modules",)), base, run)
    assert names(run) == ["main.py"]


@pytest.mark.parametrize("key", ["path", "archive", "git"])
@pytest.mark.parametrize("given", ["../outside", "repo/../../outside", "repo/..", "/"])
def test_a_path_that_leads_out_is_refused_with_what_to_do(base: Path, run: Path, key: str, given: str) -> None:
    given = str(base.parent / "outside") if given == "/" else given
    inputs = InputSpec.model_validate({key: {"url": given} if key == "git" else given})
    with pytest.raises(BadInput, match=rf"inputs\.{key}.* must be a path inside the task file's folder"):
        freeze(inputs, base, run)
    assert list(run.iterdir()) == []


def test_a_link_that_leads_out_is_refused(base: Path, run: Path) -> None:
    (base / "way").symlink_to("../outside")
    with pytest.raises(BadInput, match=r"'way' is a link that leads out .*copy it into"):
        freeze(InputSpec(path="way"), base, run)
    with pytest.raises(BadInput, match="leads out"):
        freeze(InputSpec(archive="way/secret"), base, run)


def test_a_link_out_within_the_folder_stays_a_link(base: Path, run: Path) -> None:
    (base / "repo" / "out").symlink_to("../../outside/secret")
    freeze(InputSpec(path="repo"), base, run)
    assert b"secret\n" not in (run / "input.tar").read_bytes()
    assert (unpack(run, base / "unpacked") / "out").readlink() == Path("../../outside/secret")


def test_a_person_may_name_any_folder(base: Path, run: Path) -> None:
    freeze(InputSpec(path=str(base.parent / "outside")), base, run, allow_outside=True)
    assert names(run) == ["secret"]
    freeze(InputSpec(path="../outside"), base, run, allow_outside=True)
    assert names(run) == ["secret"]


def test_what_is_missing_or_of_the_wrong_kind_is_named(base: Path, run: Path) -> None:
    with pytest.raises(BadInput, match=r"inputs\.path: 'nowhere' does not exist in .*task"):
        freeze(InputSpec(path="nowhere"), base, run)
    with pytest.raises(BadInput, match=r"inputs\.path: 'repo/main.py' is not a folder: .*inputs\.archive"):
        freeze(InputSpec(path="repo/main.py"), base, run)
    with pytest.raises(BadInput, match=r"inputs\.archive: 'repo' is not a file: .*inputs\.path"):
        freeze(InputSpec(archive="repo"), base, run)
    with pytest.raises(BadInput, match="does not exist"):
        freeze(InputSpec(path="a\0b"), base, run)
    assert list(run.iterdir()) == []


def test_a_loop_of_links_is_refused(base: Path, run: Path) -> None:
    (base / "loop").symlink_to("loop")
    with pytest.raises(BadInput, match="does not exist"):
        freeze(InputSpec(path="loop"), base, run)


def test_a_folder_that_holds_the_runs_themselves_is_refused(base: Path, run: Path) -> None:
    with pytest.raises(BadInput, match="holds Fanfold's own state"):
        freeze(InputSpec(path=str(base.parent)), base, run, allow_outside=True)


def test_an_archive_is_checked_and_made_a_plain_tar(base: Path, run: Path) -> None:
    with tarfile.open(base / "a.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("x/y")
        info.size = 3
        tar.addfile(info, BytesIO(b"abc"))
    freeze(InputSpec(archive="a.tar.gz"), base, run)
    assert names(run) == ["x", "x/y"]
    assert json.loads((run / "input.json").read_text()) == {"kind": "archive", "source": "a.tar.gz"}


def test_an_unsafe_archive_is_bad_input_and_leaves_nothing(base: Path, run: Path) -> None:
    with tarfile.open(base / "a.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("../x"))
    with pytest.raises(BadInput, match=r"inputs: archive .*'\.\./x' has a '\.\.' in it"):
        freeze(InputSpec(archive="a.tar"), base, run)
    assert list(run.iterdir()) == []


class TestARepositoryInTheFolder:
    """History comes along; hooks, remotes and what a configuration knows do not."""

    @pytest.fixture(autouse=True)
    def repository(self, base: Path) -> Path:
        folder = base / "repo"
        git(folder, "init", "--quiet")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", "first")
        git(folder, "branch", "feature/hooks")
        git(folder, "branch", "config")
        git(folder, "remote", "add", "origin", "https://user:token@example.invalid/repo")
        git(folder, "config", "http.extraheader", "AUTHORIZATION: token")
        (folder / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
        (folder / ".git" / "FETCH_HEAD").write_text("https://user:token@example.invalid/repo\n")
        return folder

    def test_its_history_works_in_the_sandbox(self, base: Path, run: Path) -> None:
        freeze(InputSpec(path="repo"), base, run)
        unpacked = unpack(run, base / "unpacked")
        assert git(unpacked, "log", "--format=%s") == "first\n"
        assert git(unpacked, "status", "--porcelain") == ""
        assert git(unpacked, "branch", "--format=%(refname:short)").split()[:2] == ["config", "feature/hooks"]

    def test_nothing_that_acts_or_tells_comes_along(self, base: Path, run: Path) -> None:
        freeze(InputSpec(path="repo"), base, run)
        assert b"token" not in (run / "input.tar").read_bytes()
        assert not [name for name in names(run) if name.startswith((".git/hooks", ".git/logs"))]

    def test_a_linked_worktree_comes_without_its_pointer_to_this_machine(self, base: Path, run: Path) -> None:
        git(base / "repo", "worktree", "add", "--quiet", "-b", "other", "../tree")
        freeze(InputSpec(path="tree"), base, run)
        assert names(run) == ["main.py"]

    def test_a_broken_configuration_is_named(self, base: Path, run: Path) -> None:
        (base / "repo" / ".git" / "config").write_text("[core\n")
        with pytest.raises(BadInput, match=r"cannot read .*\.git/config.*mend it, or exclude \.git"):
            freeze(InputSpec(path="repo"), base, run)
