"""The adapters' edges: what is what, and what careless backends of the deepagents package do."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deepagents import backends as theirs
from deepagents.backends import protocol as d

from orchestrator.agent.harness.backend import can_delete
from sandboxes import protocol as p
from sandboxes.backends import (
    CompositeBackend,
    FilesystemBackend,
    LocalShellBackend,
    PolicyBackend,
    StateBackend,
)
from sandboxes.backends.deepagents import for_deepagents, from_deepagents, is_deepagents
from sandboxes.errors import SandboxError

# -- what is what


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



# -- theirs as ours


class Careless(d.SandboxBackendProtocol):
    """A third party's sandbox: what it does is what was put into it."""

    id = "careless"

    def __init__(self, **does: Any) -> None:
        self.does = {"execute": d.ExecuteResponse("nothing", 0), **does}

    def _do(self, name: str) -> Any:
        done = self.does[name]
        if isinstance(done, Exception):
            raise done
        return done

    def ls(self, path: str) -> d.LsResult:
        return self._do("ls")

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> d.ReadResult:
        return self._do("read")

    def grep(self, pattern: str, path: str | None = None, glob: str | None = None) -> d.GrepResult:  # type: ignore[override]
        return self._do("grep")

    def glob(self, pattern: str, path: str | None = None) -> d.GlobResult:
        return self._do("glob")

    def write(self, file_path: str, content: str) -> d.WriteResult:
        return self._do("write")

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> d.EditResult:
        return self._do("edit")

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[d.FileUploadResponse]:
        return self._do("upload")

    def download_files(self, paths: list[str]) -> list[d.FileDownloadResponse]:
        return self._do("download")

    def execute(self, command: str) -> d.ExecuteResponse:  # type: ignore[override]
        return self._do("execute")


class CarelessFiles(Careless):
    """The same without commands."""

    def __new__(cls, **does: Any) -> Any:
        plain = type("CarelessFiles", (d.BackendProtocol,), dict(Careless.__dict__))
        return plain(**does)


def sandbox(**does: Any) -> p.SandboxBackendProtocol:
    adapted = from_deepagents(Careless(**does))
    assert isinstance(adapted, p.SandboxBackendProtocol)
    return adapted


def files(**does: Any) -> p.BackendProtocol:
    return from_deepagents(CarelessFiles(**does))


CALLS: dict[str, tuple[Any, ...]] = {
    "ls": ("/a",),
    "read": ("/a",),
    "grep": ("x", "/a"),
    "glob": ("*", "/a"),
    "edit": ("/a", "x", "y"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("raised", [ValueError("odd"), NotImplementedError("odd"), PermissionError(errno.EACCES, "odd")])
async def test_what_files_of_theirs_raise_over_a_path_is_a_results_error(name: str, raised: Exception) -> None:
    backend = files(**{name: raised})
    assert "odd" in getattr(backend, name)(*CALLS[name]).error
    assert "odd" in (await getattr(backend, "a" + name)(*CALLS[name])).error


@pytest.mark.parametrize("name", CALLS)
def test_a_connection_of_theirs_that_breaks_is_no_models_business(name: str) -> None:
    with pytest.raises(ConnectionError):
        getattr(files(**{name: ConnectionResetError("gone")}), name)(*CALLS[name])


@pytest.mark.parametrize("raised", [RuntimeError("quota"), ConnectionResetError("gone"), FileNotFoundError("no docker")])
@pytest.mark.parametrize("name", CALLS)
async def test_what_their_sandbox_raises_because_it_failed_is_a_sandbox_error(name: str, raised: Exception) -> None:
    with pytest.raises(SandboxError, match="Careless failed"):
        await getattr(sandbox(**{name: raised}), "a" + name)(*CALLS[name])
    with pytest.raises(SandboxError, match="Careless failed"):
        sandbox(execute=raised).execute("true")


def test_a_command_that_is_too_long_to_be_sent_can_be_mended() -> None:
    answer = sandbox(execute=OSError(errno.E2BIG, "Argument list too long")).execute("x" * 200_000)
    assert answer.exit_code == 126
    assert "longer than the sandbox takes" in answer.output


def test_a_timeout_that_their_sandbox_cannot_keep_is_refused() -> None:
    assert sandbox().execute("true").exit_code == 0
    answer = sandbox().execute("true", timeout=5)
    assert (answer.exit_code, "cannot end a command" in answer.output) == (126, True)


def test_of_endless_output_the_head_and_the_tail_are_kept() -> None:
    answer = sandbox(execute=d.ExecuteResponse("a" * 90_000 + "b" * 90_000, 1)).execute("cat")
    assert answer.truncated
    assert answer.output.startswith("a" * 50_000 + "\n... [80000 characters left out] ...\n")
    assert answer.output.endswith("b" * 50_000)


def test_an_existing_file_is_never_overwritten() -> None:
    overwriting = d.WriteResult(path="/a")
    assert sandbox(write=overwriting, execute=d.ExecuteResponse("nothing\n", 0)).write("/a", "x").path == "/a"
    for seen in ("file", "folder"):
        refused = sandbox(write=overwriting, execute=d.ExecuteResponse(seen, 0)).write("/a", "x")
        assert refused.error == p.described("/a", p.ALREADY_EXISTS)
    assert "/a" in (sandbox(write=overwriting, execute=d.ExecuteResponse("sh: not found", 127)).write("/a", "x").error or "")


def test_a_traceback_of_theirs_is_one_line_for_a_model() -> None:
    told = 'Traceback (most recent call last):\n  File "x", line 1\nOSError: [Errno 28] No space left on device\n'
    assert sandbox(write=d.WriteResult(error=told)).write("/a", "x").error == (
        "Error: OSError: [Errno 28] No space left on device"
    )


def test_entries_and_matches_are_sorted_and_absolute() -> None:
    entries: Any = [{"path": "/a/z", "is_dir": True, "size": 0, "modified_at": ""}, {"path": "b", "size": 3}]
    backend = files(
        ls=d.LsResult(entries=entries),
        glob=d.GlobResult(matches=entries, truncated=True, truncation_reason="budget"),
        grep=d.GrepResult(matches=[{"path": "z", "line": 2, "text": "x"}, {"path": "b", "line": 1, "text": "x"}]),
    )
    assert backend.ls("/a").entries == [{"path": "/a/b", "is_dir": False, "size": 3}, {"path": "/a/z/", "is_dir": True}]
    globbed = backend.glob("*", "/a")
    assert [info["path"] for info in globbed.matches or []] == ["/a/b"]
    assert (globbed.truncated, globbed.truncation_reason) == (True, "budget")
    assert [match["path"] for match in backend.grep("x", "/a").matches or []] == ["/a/b", "/a/z"]
    assert backend.grep("x", "/a", max_count=1).truncated


def test_matches_that_come_with_an_error_stay() -> None:
    found: Any = d.GrepResult(error="some files could not be read", matches=[{"path": "/a", "line": 1, "text": "x"}])
    result = files(grep=found).grep("x")
    assert (result.error, result.truncated, len(result.matches or [])) == (None, True, 1)


def test_a_window_gets_the_end_of_its_last_line_where_more_lines_follow() -> None:
    made: Any = d.ReadResult(
        file_data={"content": "a\nb", "encoding": "utf-8"}, start_line=1, end_line=2, next_offset=2, total_lines=3
    )
    assert files(read=made).read("/a.txt", 0, 2).content == "a\nb\n"


def test_text_without_line_numbers_begins_at_the_offset() -> None:
    made: Any = d.ReadResult(file_data={"content": "a\nb", "encoding": "utf-8"})
    result = files(read=made).read("/a.txt", 5, 2)
    assert (result.start_line, result.end_line, result.next_offset) == (6, 7, 7)
    assert files(read=made).read("/a.txt", 5, 9).next_offset is None


def test_the_first_format_of_theirs_is_read() -> None:
    made: Any = d.ReadResult(file_data={"content": ["a", "b"], "created_at": "2025-01-01"})  # type: ignore[typeddict-item]
    assert files(read=made).read("/a.py").file_data == {
        "content": "a\nb", "encoding": "utf-8", "mime_type": "text/x-python", "created_at": "2025-01-01",
    }  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe"])
def test_what_theirs_replace_by_words_is_read_from_its_bytes(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    expected = FilesystemBackend(tmp_path, virtual_mode=True).read("/a.txt")
    result = from_deepagents(theirs.FilesystemBackend(tmp_path, virtual_mode=True)).read("/a.txt")
    assert result.content == expected.content
    assert (result.start_line, result.total_lines) == (expected.start_line, expected.total_lines)


def test_every_file_of_a_batch_has_an_answer() -> None:
    backend = files(upload=[], download=[d.FileDownloadResponse("/a", b"x")])
    assert [answer.error for answer in backend.upload_files([("/a", b""), ("../b", b"")])] == [
        "Error: the backend gave no answer for this file",
        "invalid_path",
    ]
    assert [(answer.content, answer.error) for answer in backend.download_files(["../c", "/a"])] == [
        (None, "invalid_path"),
        (b"x", None),
    ]
    none = files(download=[d.FileDownloadResponse("/a")], upload=NotImplementedError())
    assert none.download_files(["/a"])[0].error == "file_not_found"
    assert "cannot do this" in (none.upload_files([("/a", b"")])[0].error or "")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("read", "/../a"), "must not contain '..'"),
        (("read", "/a\0"), "NUL"),
        (("read", "/a", -1), "must not be negative"),
        (("grep", ""), "must not be empty"),
        (("grep", "x", "/", "../*"), "contains '..'"),
        (("glob", "../*"), "contains '..'"),
        (("edit", "/a", "", "x"), "must not be empty"),
        (("write", "/a", "\ud800"), "cannot be written as UTF-8"),
    ],
)
def test_what_ours_refuse_is_not_asked_of_theirs(call: tuple[Any, ...], words: str) -> None:
    name, *arguments = call
    assert words in getattr(files(), name)(*arguments).error


def test_paths_of_this_machine_begin_in_their_root(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("needle")
    backend = from_deepagents(theirs.FilesystemBackend(tmp_path, virtual_mode=False))
    found = str(tmp_path / "a.txt")
    assert backend.read("a.txt").content == "needle"
    assert [match["path"] for match in backend.grep("needle").matches or []] == [found]
    assert [info["path"] for info in backend.glob("*.txt").matches or []] == [found]


def test_a_path_that_leads_out_of_their_root_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_text("hush")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "secret")
    backend = from_deepagents(theirs.FilesystemBackend(tmp_path / "root", virtual_mode=True))
    assert "outside root" in (backend.read("/link").error or "")


def test_whether_theirs_can_delete_is_seen(tmp_path: Path) -> None:
    assert can_delete(from_deepagents(theirs.FilesystemBackend(tmp_path)))
    assert not can_delete(files())


def test_the_root_of_theirs_cannot_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    backend = from_deepagents(theirs.FilesystemBackend(tmp_path, virtual_mode=True))
    assert backend.delete("/").error == "Error: '/' cannot be deleted"
    assert backend.delete("//./").error == "Error: '/' cannot be deleted"
    assert (tmp_path / "a").exists()
