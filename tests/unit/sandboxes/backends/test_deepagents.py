"""The adapters' edges: what is what, and what careless backends of the deepagents package do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deepagents import backends as theirs
from deepagents.backends import protocol as d

from sandboxes import protocol as p
from sandboxes.backends import (
    CompositeBackend,
    FilesystemBackend,
    LocalShellBackend,
    PolicyBackend,
    StateBackend,
)
from sandboxes.backends.deepagents import for_deepagents, from_deepagents, is_deepagents

# -- what is what
from tests.unit.sandboxes.backends.careless import Careless


def run(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_asking_whether_a_backend_is_theirs_does_not_load_the_package() -> None:
    script = (
        "import sys; from sandboxes.backends.deepagents import is_deepagents;"
        "print(is_deepagents(object()), 'deepagents' in sys.modules)"
    )
    assert run(script) == "False False"


def test_without_the_package_the_error_says_how_to_get_it() -> None:
    script = (
        "import sys; sys.modules['deepagents'] = None\n"
        "from sandboxes.backends import StateBackend, for_deepagents\n"
        "try: for_deepagents(StateBackend())\n"
        "except ImportError as exc: print(exc)"
    )
    assert run(script).endswith("install fanfold[deepagents]")


def test_a_backend_of_ours_is_none_of_theirs_until_it_is_adapted(tmp_path: Path) -> None:
    backend = FilesystemBackend(tmp_path)
    assert not is_deepagents(backend)
    assert is_deepagents(for_deepagents(backend))


@pytest.mark.parametrize("adapt", [for_deepagents, from_deepagents])
def test_what_is_no_backend_is_a_type_error(adapt: Any) -> None:
    with pytest.raises(TypeError, match=r"takes a backend of .*, not dict"):
        adapt({})


def test_what_was_adapted_is_handed_back(tmp_path: Path) -> None:
    ours, other = FilesystemBackend(tmp_path), theirs.FilesystemBackend(tmp_path, virtual_mode=True)
    assert from_deepagents(for_deepagents(ours)) is ours
    assert for_deepagents(from_deepagents(other)) is other


def test_ours_are_of_the_classes_that_their_harness_looks_for(tmp_path: Path) -> None:
    state, disk, shell = StateBackend(), FilesystemBackend(tmp_path), LocalShellBackend(tmp_path)
    assert isinstance(for_deepagents(state), theirs.StateBackend)
    assert isinstance(for_deepagents(PolicyBackend(state)), theirs.StateBackend)
    assert isinstance(for_deepagents(disk), theirs.FilesystemBackend)
    assert not isinstance(for_deepagents(disk), d.SandboxBackendProtocol)
    assert isinstance(for_deepagents(shell), d.SandboxBackendProtocol)
    made = for_deepagents(PolicyBackend(CompositeBackend(shell, {"/m": state}, artifacts_root="/a")))
    assert isinstance(made, theirs.CompositeBackend)
    assert isinstance(made.default, theirs.LocalShellBackend)
    assert isinstance(made.routes["/m/"], theirs.StateBackend)
    assert made.artifacts_root == "/a"


def test_their_classes_are_ours_by_what_they_can_do(tmp_path: Path) -> None:
    files, shell = theirs.FilesystemBackend(tmp_path), theirs.LocalShellBackend(tmp_path)
    assert not isinstance(from_deepagents(files), p.SandboxBackendProtocol)
    assert isinstance(from_deepagents(shell), p.SandboxBackendProtocol)
    assert not isinstance(from_deepagents(theirs.CompositeBackend(files, {})), p.SandboxBackendProtocol)
    composite = from_deepagents(theirs.CompositeBackend(shell, {}))
    assert isinstance(composite, p.SandboxBackendProtocol)
    assert composite.id == shell.id


def test_a_shell_of_theirs_on_this_machine_is_not_isolated(tmp_path: Path) -> None:
    shell = theirs.LocalShellBackend(tmp_path)
    assert from_deepagents(shell).isolated is False  # type: ignore[attr-defined]
    assert from_deepagents(theirs.CompositeBackend(shell, {})).isolated is False  # type: ignore[attr-defined]
    assert from_deepagents(Careless()).isolated is True  # type: ignore[attr-defined]


# -- ours as theirs


@pytest.fixture
def disk(tmp_path: Path) -> d.BackendProtocol:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    return for_deepagents(FilesystemBackend(tmp_path, virtual_mode=True))


def test_results_are_of_their_types(disk: d.BackendProtocol) -> None:
    assert disk.read("/a.txt", -5, 1) == d.ReadResult(
        file_data={"content": "one", "encoding": "utf-8", "modified_at": disk.ls("/").entries[0]["modified_at"]},  # type: ignore[index]
        total_lines=2,
        start_line=1,
        end_line=1,
        next_offset=1,
    )
    assert disk.read("/a.txt", 0, 0).no_lines_requested
    assert disk.grep("two") == d.GrepResult(matches=[{"path": "/a.txt", "line": 2, "text": "two"}])
    assert disk.edit("/a.txt", "two", "2") == d.EditResult(path="/a.txt", occurrences=1)
    assert disk.delete("/a.txt") == d.DeleteResult(path="/a.txt")


def test_errors_of_queries_have_no_prefix_because_their_tools_put_one(disk: d.BackendProtocol) -> None:
    assert disk.read("/b").error == "File '/b' not found"
    assert disk.ls("/b").error == "Directory '/b' not found"
    assert disk.glob("*", "/b").error == "File '/b' not found"
    assert disk.edit("/b", "x", "y").error == "Error: File '/b' not found"


def test_batches_take_absolute_paths_alone_and_keep_their_order(disk: d.BackendProtocol) -> None:
    assert disk.upload_files([("b", b"1"), ("/c", b"2"), ("../d", b"3")]) == [
        d.FileUploadResponse("b", "invalid_path"),
        d.FileUploadResponse("/c"),
        d.FileUploadResponse("../d", "invalid_path"),
    ]
    assert disk.download_files(["b", "/c", "/e"]) == [
        d.FileDownloadResponse("b", error="invalid_path"),
        d.FileDownloadResponse("/c", b"2"),
        d.FileDownloadResponse("/e", error="file_not_found"),
    ]


def test_a_text_that_has_no_bytes_is_an_error_with_overwrite_too(tmp_path: Path) -> None:
    backend = for_deepagents(FilesystemBackend(tmp_path, virtual_mode=True), overwrite=True)
    assert backend.write("/a", "\ud800").error is not None
    assert backend.write("/../a", "x").error is not None
    assert list(tmp_path.iterdir()) == []


def test_a_backend_that_cannot_delete_has_no_delete() -> None:
    class Keeping(PolicyBackend):
        delete = p.BackendProtocol.delete
        adelete = p.BackendProtocol.adelete

    backend = type(for_deepagents(Keeping(Plain())))
    assert backend.delete is d.BackendProtocol.delete


class Plain(p.BackendProtocol):
    """A backend of nobody we know."""

    def ls(self, path: str) -> p.LsResult:
        return p.LsResult(entries=[])

    def read(self, file_path: str, offset: int = 0, limit: int = 1) -> p.ReadResult:
        return p.ReadResult(error="no")

    def grep(self, pattern: str, path: Any = None, glob: Any = None, *, max_count: Any = None) -> p.GrepResult:
        return p.GrepResult(matches=[])

    def glob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        return p.GlobResult(matches=[])

    def write(self, file_path: str, content: str) -> p.WriteResult:
        return p.WriteResult(error="no")

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        return p.EditResult(error="no")

    def upload_files(self, files: Any) -> list[p.FileUploadResponse]:
        return []

    def download_files(self, paths: Any) -> list[p.FileDownloadResponse]:
        return []
