"""A Git repository at a ref as the inputs of a run. The repositories are real, and read through the real `git`."""

from __future__ import annotations

import gzip
import json
import os
import socket
import stat
import subprocess
import tarfile
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pygit2
import pytest
from pygit2.enums import FileMode

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.gitcommand import run_git
from orchestrator.gitsource import remote_of
from orchestrator.inputs import freeze
from orchestrator.spec import InputSpec
from tests.unit.orchestrator.repositories import git


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    folder.mkdir()
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "runs" / "1"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def repository(base: Path) -> Path:
    """Two commits on `main`, a tag `v1` on the first, a submodule's place, a link and an executable."""
    folder = base / "upstream"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "main.py").write_text("first\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("main.py")
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "sub" / "deep" / "x").write_text("x")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    git(folder, "tag", "-a", "v1", "-m", "a tag with a message")
    (folder / "main.py").write_text("second\n")
    git(folder, "commit", "--quiet", "-am", "second")
    return folder


def freeze_git(base: Path, run: Path, ref: str = "main", url: str = "upstream", exclude: tuple[str, ...] = ()) -> Path:
    """Freeze, and unpack what was frozen."""
    freeze(InputSpec.model_validate({"git": {"url": url, "ref": ref}, "exclude": exclude}), base, run)
    with tarfile.open(run / "input.tar") as tar:
        tar.extractall(run / "unpacked", filter="fully_trusted")
    return run / "unpacked"


def test_a_branch_gives_its_files_and_its_history(base: Path, run: Path, repository: Path) -> None:
    folder = freeze_git(base, run)
    assert (folder / "main.py").read_text() == "second\n"
    assert (folder / "run.sh").stat().st_mode & stat.S_IXUSR
    assert (folder / "link").readlink() == Path("main.py")
    assert git(folder, "log", "--format=%s") == "second\nfirst\n"
    assert git(folder, "status", "--porcelain") == ""


def test_a_tag_and_a_commit_are_refs_too_and_the_commit_is_recorded(base: Path, run: Path, repository: Path) -> None:
    first = git(repository, "rev-parse", "v1^{commit}").strip()
    for ref in ("v1", first):
        assert (freeze_git(base, run, ref) / "main.py").read_text() == "first\n"
        record = json.loads((run / "input.json").read_text())
        assert record == {"kind": "git", "source": "upstream", "ref": ref, "commit": first}


def test_what_changes_in_the_sandbox_shows_in_its_diff(base: Path, run: Path, repository: Path) -> None:
    folder = freeze_git(base, run)
    (folder / "main.py").write_text("third\n")
    assert "+third" in git(folder, "diff")


def test_excluded_names_are_left_out_and_git_may_be_one(base: Path, run: Path, repository: Path) -> None:
    folder = freeze_git(base, run, exclude=(".git", "deep"))
    assert sorted(path.name for path in folder.iterdir()) == ["link", "main.py", "run.sh", "sub"]
    assert list((folder / "sub").iterdir()) == []


def test_neither_hooks_nor_configuration_nor_leftovers_come_along(base: Path, run: Path, repository: Path) -> None:
    (repository / ".git" / "hooks" / "post-checkout").write_text("#!/bin/sh\ntouch /tmp/owned\n")
    git(repository, "config", "core.fsmonitor", "touch owned")
    folder = freeze_git(base, run)
    assert sorted(path.name for path in (folder / ".git").iterdir()) == ["HEAD", "config", "index", "objects", "refs"]
    assert "fsmonitor" not in (folder / ".git" / "config").read_text()
    assert sorted(path.name for path in run.iterdir()) == ["input.json", "input.tar", "unpacked"]


def test_a_long_history_is_cut(base: Path, run: Path, repository: Path) -> None:
    for number in range(60):
        git(repository, "commit", "--quiet", "--allow-empty", "-m", f"commit {number}")
    assert len(git(freeze_git(base, run), "log", "--format=%s").splitlines()) == 50


def test_a_submodule_is_an_empty_folder(base: Path, run: Path, repository: Path) -> None:
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'ab' * 20},module")
    git(repository, "commit", "--quiet", "-m", "with a submodule")
    assert list((freeze_git(base, run) / "module").iterdir()) == []


def test_a_repository_is_read_over_http(
    base: Path, run: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(GitHandler, repository.parent)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            folder = freeze_git(base, run, url=f"http://user:word@127.0.0.1:{server.server_port}/upstream/.git")
        finally:
            server.shutdown()
            thread.join()
    assert (folder / "main.py").read_text() == "second\n"
    assert "word" not in (run / "input.json").read_text()


@pytest.mark.parametrize("ref", ["nowhere", "refs/heads/nowhere", "0123456789" * 4])
def test_an_unknown_ref_is_named(base: Path, run: Path, repository: Path, ref: str) -> None:
    with pytest.raises(BadInput, match=rf"inputs\.git\.ref: '{ref}' is not in .*upstream"):
        freeze_git(base, run, ref)
    assert list(run.iterdir()) == []


def test_a_short_commit_id_is_refused_with_what_to_give(base: Path, run: Path, repository: Path) -> None:
    with pytest.raises(BadInput, match="all 40 digits"):
        freeze_git(base, run, git(repository, "rev-parse", "HEAD")[:8])


@pytest.mark.parametrize("ref", ["--upload-pack=x", "-x", "a:b", "+main", "a..b", "main~1", "HEAD^", "a b", "", "@{-1}", "*"])
def test_a_ref_that_is_an_option_or_an_expression_is_refused(base: Path, run: Path, repository: Path, ref: str) -> None:
    with pytest.raises(BadInput, match="is no branch, tag or commit id"):
        freeze_git(base, run, ref)


@pytest.mark.parametrize(
    "url",
    [
        *("ext::sh -c touch% owned", "file:///etc", "git://host/x", "-oProxyCommand=x", "--upload-pack=x", "ssh://-oProxyCommand=x/y"),
        *("fd::17/foo", "ftp://host/x", "https://-x/y", "-x@host:path", "user@-host:path", "https://", "http://ho st/x"),
    ],
)
def test_an_address_that_is_not_a_plain_remote_is_refused(base: Path, run: Path, url: str) -> None:
    with pytest.raises(BadInput, match=r"inputs\.git\.url: '.*' is refused: give an https"):
        freeze_git(base, run, url=url)
    assert list(run.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    ["https://example.invalid/a/b.git", "http://127.0.0.1:80/x", "ssh://git@example.invalid:22/x", "g@example.invalid:a/b.git"],
)
def test_plain_remotes_are_taken(url: str) -> None:
    assert remote_of(url) == url


def test_a_folder_without_a_repository_is_named(base: Path, run: Path) -> None:
    (base / "plain").mkdir()
    with pytest.raises(BadInput, match=r"inputs\.git\.url: cannot fetch 'main' from .*plain: .*git repository"):
        freeze_git(base, run, url="plain")


def test_an_address_where_nothing_answers_is_bad_input_without_its_password(base: Path, run: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://user:password@127.0.0.1:{unused.getsockname()[1]}/x"
        with pytest.raises(BadInput, match="cannot fetch 'main' from http://127") as caught:
            freeze_git(base, run, url=url)
    assert "password" not in str(caught.value)


def test_a_tree_that_would_plant_a_git_folder_is_refused(base: Path, run: Path, repository: Path) -> None:
    source = pygit2.Repository(str(repository))
    blob = source.create_blob(b"[core]\nfsmonitor = touch owned\n")
    entry = f"{FileMode.BLOB:o} .GIT".encode() + b"\0" + bytes.fromhex(str(blob))
    tree = source.write(pygit2.enums.ObjectType.TREE, entry)
    who = pygit2.Signature("tester", "tester@example.invalid")
    source.create_commit("refs/heads/evil", who, who, "evil", tree, [])
    with pytest.raises(BadInput, match=r"'\.GIT', which Git itself would refuse"):
        freeze_git(base, run, "evil")


def test_a_server_that_never_answers_ends_with_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pygit2.init_repository(str(tmp_path / "work"), bare=True)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(InfrastructureError, match="git fetch took longer than"):
            run_git("fetch", url, "main", cwd=tmp_path / "work", deadline=0.5)


def test_a_machine_without_git_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(InfrastructureError, match="needs the program `git`"):
        run_git("version", cwd=tmp_path)


def test_the_configuration_of_whoever_runs_it_is_not_read(
    base: Path, run: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / ".gitconfig").write_text(f'[url "/nowhere"]\n\tinsteadOf = {repository}\n')
    monkeypatch.setenv("HOME", str(base))
    assert (freeze_git(base, run) / "main.py").exists()


class GitHandler(BaseHTTPRequestHandler):
    """Serves the repositories of a folder by Git's own server program."""

    def __init__(self, root: Path, *arguments: Any) -> None:
        self._root = root
        super().__init__(*arguments)

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self._root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
        }
        done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True, timeout=60)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""
