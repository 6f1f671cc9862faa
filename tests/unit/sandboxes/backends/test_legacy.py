import warnings
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from sandboxes import protocol as p
from sandboxes.backends.composite import CompositeBackend
from sandboxes.backends.first import numbered
from sandboxes.backends.legacy import (
    Backend,
    BackendContext,
    BackendProtocolV1,
    SandboxBackendProtocolV1,
    adapt_backend_protocol,
    adapt_sandbox_protocol,
)
from tests.unit.sandboxes.backends.samples import Box, Memory, paths


class Notes(BackendProtocolV1):
    """A backend as the first version wanted it: six methods over a dict of texts."""

    def __init__(self, files=None):
        self.files = dict(files or {})

    def ls_info(self, path):
        prefix = path.rstrip("/") + "/"
        names = {prefix + one[len(prefix) :].split("/")[0] for one in self.files if one.startswith(prefix)}
        return [{"path": name} if name in self.files else {"path": name + "/", "is_dir": True} for name in names]

    def read(self, file_path, offset=0, limit=2000):
        if file_path not in self.files:
            return f"Error: File '{file_path}' not found"
        lines = self.files[file_path].split("\n")
        if not self.files[file_path]:
            return "System reminder: File exists but has empty contents"
        if offset >= len(lines):
            return f"Error: Line offset {offset} exceeds file length ({len(lines)} lines)"
        return numbered.number(lines[offset : offset + limit], offset + 1)

    def grep_raw(self, pattern, path=None, glob=None):
        if pattern == "(":
            return "Invalid regex pattern: missing )"
        return [
            {"path": name, "line": number, "text": line}
            for name, content in self.files.items()
            for number, line in enumerate(content.split("\n"), 1)
            if pattern in line
        ]

    def glob_info(self, pattern, path="/"):
        return [{"path": "/folder/", "is_dir": True}] + [{"path": name} for name in self.files]

    def write(self, file_path, content):
        if file_path in self.files:
            return p.WriteResult(error=f"Cannot write to {file_path}: it exists")
        self.files[file_path] = content
        return p.WriteResult(path=file_path, files_update={file_path: {"content": [content]}})

    def edit(self, file_path, old_string, new_string, replace_all=False):
        if old_string not in self.files.get(file_path, ""):
            return p.EditResult(error="old_string not found")
        count = self.files[file_path].count(old_string)
        self.files[file_path] = self.files[file_path].replace(old_string, new_string)
        return p.EditResult(path=file_path, occurrences=count)


@pytest.fixture
def notes():
    return Notes({"/b.md": "one\ntwo\nthree", "/a/x.md": "two", "/empty.md": ""})


@pytest.fixture
def backend(notes):
    return adapt_backend_protocol(notes)


# -- a first-version backend as one of the second


def test_a_first_version_backend_is_adapted(backend):
    assert isinstance(backend, p.BackendProtocol)
    assert not isinstance(backend, p.SandboxBackendProtocol)
    assert adapt_backend_protocol(backend) is backend


def test_listings_are_sorted(backend):
    assert paths(backend.ls("/")) == ["/a/", "/b.md", "/empty.md"]


def test_line_numbers_are_taken_off(backend):
    assert backend.read("/b.md") == p.ReadResult(
        file_data={"content": "one\ntwo\nthree", "encoding": "utf-8", "mime_type": "text/markdown"}, start_line=1, end_line=3
    )


def test_a_window_tells_how_to_go_on(backend):
    first = backend.read("/b.md", 0, 2)
    assert (first.content, first.start_line, first.end_line, first.next_offset) == ("one\ntwo\n", 1, 2, 2)
    last = backend.read("/b.md", first.next_offset, 1)
    assert (last.content, last.next_offset) == ("three", None)


def test_an_empty_file_is_empty(backend):
    assert backend.read("/empty.md").content == ""


def test_no_lines_are_none(backend):
    assert backend.read("/b.md", 0, 0).no_lines_requested


def test_errors_in_words_become_errors(backend):
    assert backend.read("/none").error == "Error: File '/none' not found"
    assert backend.read("/b.md", 9).error == "Error: Line offset 9 exceeds file length (3 lines)"
    assert backend.read_raw("/none").error == "Error: File '/none' not found"
    assert backend.grep("(").error == "Invalid regex pattern: missing )"
    assert backend.write("/b.md", "").error == "Cannot write to /b.md: it exists"
    assert backend.edit("/b.md", "nine", "").error == "old_string not found"


def test_matches_are_sorted_and_capped(backend):
    assert paths(backend.grep("two")) == ["/a/x.md", "/b.md"]
    capped = backend.grep("two", max_count=1)
    assert (paths(capped), capped.truncated) == (["/a/x.md"], True)
    assert backend.grep("nothing at all") == p.GrepResult(matches=[])
    assert backend.grep("").error == "Error: the pattern must not be empty"


def test_glob_gives_files_only_in_order(backend):
    assert paths(backend.glob("*")) == ["/a/x.md", "/b.md", "/empty.md"]
    assert "contains '..'" in backend.glob("../*").error


def test_an_update_for_the_state_is_handed_on(backend):
    assert backend.write("/new", "x").files_update == {"/new": {"content": ["x"]}}
    assert backend.edit("/new", "x", "y") == p.EditResult(path="/new", occurrences=1)


def test_downloads_and_uploads_go_through_reading_and_writing(backend, notes):
    assert [one.content for one in backend.download_files(["/b.md", "/empty.md"])] == [b"one\ntwo\nthree", b""]
    answers = backend.upload_files([("/b.md", b"new"), ("/c.md", b"c"), ("/d", b"\xff"), ("/empty.md", b"x"), ("/a/../b", b"")])
    assert [one.error for one in answers[:2]] == [None, None]
    assert (notes.files["/b.md"], notes.files["/c.md"]) == ("new", "c")
    assert answers[2].error == "Error: Notes keeps text only, and '/d' is not UTF-8 text"
    assert answers[3].error == "Error: '/empty.md' exists and is empty: Notes cannot put text into it"
    assert answers[4].error == "invalid_path"
    errors = [one.error for one in backend.download_files(["/none", "/a/../b"])]
    assert errors == ["file_not_found", "invalid_path"]


def test_delete_is_said_to_be_missing(backend):
    assert backend.delete("/b.md").error == "Error: Notes cannot delete files"


@pytest.mark.parametrize("path", ["/a/../b", "/a\0b", ""])
def test_the_first_version_never_sees_a_path_that_climbs(backend, path):
    answers = [backend.ls(path), backend.read(path), backend.read_raw(path), backend.grep("x", path), backend.glob("*", path)]
    answers += [backend.write(path, ""), backend.edit(path, "a", "")]
    assert all(one.error.startswith("Error: Path") for one in answers)


def test_nor_does_it_in_a_batch():
    class Recording(Foreign):
        def __init__(self):
            self.seen = []

        def upload_files(self, files):
            self.seen += [path for path, _ in files]
            return super().upload_files(files)

        def download_files(self, paths):
            raise ValueError("no such drive")

    recording = Recording()
    backend = adapt_backend_protocol(recording)
    answers = backend.upload_files([("/a/../b", b""), ("x//y", b"")])
    assert answers == [p.FileUploadResponse("/a/../b", "invalid_path"), p.FileUploadResponse("x//y")]
    assert recording.seen == ["/x/y"]
    assert backend.upload_files([]) == []
    assert [one.error for one in backend.download_files(["/x", ""])] == ["Error: no such drive", "invalid_path"]


def test_what_is_raised_over_a_path_is_an_error():
    class Strict(Notes):
        def read(self, file_path, offset=0, limit=2000):
            raise ValueError("Path traversal not allowed")

        def ls_info(self, path):
            raise FileNotFoundError("no such folder")

    backend = adapt_backend_protocol(Strict())
    assert backend.read("/x").error == "Error: Path traversal not allowed"
    assert backend.download_files(["/x"])[0].error == "Error: Path traversal not allowed"
    assert backend.ls("/x").error == "Error: no such folder"


def test_a_first_version_backend_under_a_route_keeps_its_place(notes):
    backend = CompositeBackend(Memory(), {"/notes/": notes})
    assert paths(backend.ls("/notes")) == ["/notes/a/", "/notes/b.md", "/notes/empty.md"]
    assert paths(backend.grep("two")) == ["/notes/a/x.md", "/notes/b.md"]
    assert backend.read("/notes/none").error == "Error: File '/notes/none' not found"


async def test_its_own_async_methods_are_used_where_it_has_some():
    class Native(Notes):
        async def aread(self, file_path, offset=0, limit=2000):
            return "     1\tfrom the async form"

    backend = adapt_backend_protocol(Native({"/x": "sync"}))
    assert (await backend.aread("/x")).content == "from the async form"
    assert backend.read("/x").content == "sync"


async def test_the_async_forms_give_the_same(backend):
    assert await backend.als("/") == backend.ls("/")
    assert await backend.aread("/b.md", 1, 1) == backend.read("/b.md", 1, 1)
    assert await backend.aread_raw("/b.md") == backend.read_raw("/b.md")
    assert await backend.agrep("two") == backend.grep("two")
    assert await backend.aglob("*") == backend.glob("*")
    assert (await backend.awrite("/new", "x")).path == "/new"
    assert (await backend.aedit("/new", "x", "y")).occurrences == 1
    assert await backend.adelete("/b.md") == backend.delete("/b.md")
    assert [one.error for one in await backend.aupload_files([("/up", b"u")])] == [None]
    assert [one.content for one in await backend.adownload_files(["/up"])] == [b"u"]


async def test_the_base_class_gives_async_forms_by_itself(notes):
    assert await notes.als_info("/a") == notes.ls_info("/a")
    assert await notes.aread("/b.md") == notes.read("/b.md")
    assert await notes.agrep_raw("two") == notes.grep_raw("two")
    assert await notes.aglob_info("*") == notes.glob_info("*")
    assert (await notes.awrite("/new", "x")).path == "/new"
    assert (await notes.aedit("/new", "x", "y")).occurrences == 1
    assert [one.error for one in await notes.aupload_files([("/up", b"u")])] == [None]
    assert [one.content for one in await notes.adownload_files(["/up"])] == [b"u"]


# -- foreign ones, by their methods


@dataclass
class Outcome:
    """A result class of somebody else's."""

    error: str | None = None
    path: str = ""


class Foreign:
    """A first-version backend that derives from nothing of ours, with the codes of adk-deepagents, and its own uploads."""

    def ls_info(self, path):
        return []

    def read(self, file_path, offset=0, limit=2000):
        return "     1\ta\n     2\tb\n\n... (7 more lines. Use offset=2 to continue reading)" if offset == 0 else "     3\tc"

    def grep_raw(self, pattern, path=None, glob=None):
        return "No matches found"

    def glob_info(self, pattern, path="/"):
        return []

    def write(self, file_path, content):
        return Outcome(error="already_exists") if file_path == "/there" else Outcome()

    def edit(self, file_path, old_string, new_string, replace_all=False):
        return Outcome(error="file_not_found")

    def delete(self, file_path):
        return Outcome(path=file_path)

    def upload_files(self, files):
        return [SimpleNamespace(path=path, error=None) for path, _ in files]

    def download_files(self, paths):
        return [SimpleNamespace(path=path, content=b"\x89PNG", error=None) for path in paths]


def test_a_backend_of_the_first_version_is_known_by_its_methods():
    backend = adapt_backend_protocol(Foreign())
    assert backend.write("/new", "x") == p.WriteResult(path="/new")
    assert backend.write("/there", "x").error == p.described("/there", p.ALREADY_EXISTS)
    assert backend.edit("/x", "a", "b").error == "Error: File '/x' not found"
    assert backend.delete("/x") == p.DeleteResult(path="/x")
    assert backend.grep("x") == p.GrepResult(matches=[])
    assert backend.upload_files([("/u", b"")]) == [p.FileUploadResponse("/u")]
    assert backend.download_files(["/d"]) == [p.FileDownloadResponse("/d", b"\x89PNG")]


def test_a_note_below_a_window_is_not_text_of_the_file():
    read = adapt_backend_protocol(Foreign()).read("/x", 0, 2)
    assert (read.content, read.next_offset) == ("a\nb\n", 2)


def test_a_picture_is_read_from_where_there_are_downloads():
    read = adapt_backend_protocol(Foreign()).read("/x.png")
    assert (read.content, read.mime_type) == (b"\x89PNG", "image/png")


def test_an_answer_that_is_no_result_is_a_defect_of_the_backend():
    class Silent(Foreign):
        def write(self, file_path, content):
            return None

    with pytest.raises(TypeError, match="WriteResult"):
        adapt_backend_protocol(Silent()).write("/x", "")


# -- sandboxes


class Shell(Notes, SandboxBackendProtocolV1):
    id = "shell-1"

    def execute(self, command):
        return SimpleNamespace(output=command, exit_code=0, truncated=False)


class Timed(Shell):
    def execute(self, command, timeout=None):
        return p.ExecuteResponse(output=f"{command} {timeout}", exit_code=0)


async def test_a_first_version_sandbox_is_adapted():
    sandbox = adapt_sandbox_protocol(Shell())
    assert isinstance(sandbox, p.SandboxBackendProtocol)
    assert isinstance(adapt_backend_protocol(Shell()), p.SandboxBackendProtocol)
    assert sandbox.id == "shell-1"
    assert sandbox.execute("ls") == await sandbox.aexecute("ls") == p.ExecuteResponse(output="ls", exit_code=0)


def test_a_timeout_is_kept_or_refused():
    refused = adapt_sandbox_protocol(Shell()).execute("ls", timeout=3)
    assert (refused.exit_code, "cannot limit the time" in refused.output) == (126, True)
    assert adapt_sandbox_protocol(Timed()).execute("ls", timeout=3).output == "ls 3"


def test_what_cannot_run_commands_is_no_sandbox(notes):
    with pytest.raises(TypeError, match="cannot run commands"):
        adapt_sandbox_protocol(notes)
    box = Box()
    assert adapt_sandbox_protocol(box) is box


# -- what is adapted, and what is not


def test_the_sisters_name_is_the_same_class():
    assert Backend is BackendProtocolV1


@pytest.mark.parametrize("thing", [None, 3, object(), SimpleNamespace(ls_info=print)])
def test_what_is_no_backend_is_told_what_it_lacks(thing):
    with pytest.raises(TypeError, match=r"is not a backend: .* lacks .*write"):
        adapt_backend_protocol(thing)


def test_a_class_in_place_of_an_instance_is_refused():
    with pytest.raises(TypeError, match="Notes is a class"):
        adapt_backend_protocol(Notes)


def test_a_factory_is_called_with_the_runtime_and_warned_of():
    with pytest.warns(DeprecationWarning, match="factories are deprecated") as caught:
        backend = adapt_backend_protocol(lambda rt: Notes({rt.name: "x"}), SimpleNamespace(name="/of-the-runtime"))
    assert caught[0].filename == __file__
    assert paths(backend.ls("/")) == ["/of-the-runtime"]


@pytest.mark.filterwarnings("ignore:backend factories")
def test_a_factory_without_what_it_needs_says_so():
    with pytest.raises(TypeError, match="needs a runtime"):
        adapt_backend_protocol(lambda rt: Notes({rt.name: "x"}))
    with pytest.raises(TypeError, match="returned None"):
        adapt_backend_protocol(lambda rt: None)


def test_a_context_is_the_runtime_with_two_deprecated_names():
    runtime = SimpleNamespace(server_info="info", store="store")
    context = BackendContext(runtime, {"messages": []})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (context.server_info, context.store) == ("info", "store")
    with pytest.warns(DeprecationWarning, match=r"BackendContext\.runtime") as caught:
        assert context.runtime is runtime
    assert (caught[0].filename, len(caught)) == (__file__, 1)
    with pytest.warns(DeprecationWarning, match=r"BackendContext\.state") as caught:
        assert context.state == {"messages": []}
    assert (caught[0].filename, len(caught)) == (__file__, 1)
    assert not hasattr(context, "nothing")
