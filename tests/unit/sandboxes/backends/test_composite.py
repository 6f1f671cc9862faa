import asyncio
from pathlib import Path

import pytest

from sandboxes import protocol as p
from sandboxes.backends.composite import CompositeBackend
from sandboxes.backends.filesystem import FilesystemBackend
from sandboxes.backends.state import StateBackend
from sandboxes.backends.store import StoreBackend
from tests.unit.sandboxes.backends.samples import Box, Memory, Rooted, paths


@pytest.fixture
def default():
    return Memory({"/plan.md": "todo one\n", "/src/main.py": "todo two\n"})


@pytest.fixture
def memories():
    return Memory({"/agent.md": "todo three\n", "/old/log.md": "done\n"})


@pytest.fixture
def projects():
    return Memory({"/p.md": "todo four\n"})


@pytest.fixture
def composite(default, memories, projects):
    return CompositeBackend(default, {"/memories/": memories, "/memories/projects": projects})


# -- routing


def test_the_seeds_examples_go_where_they_say(tmp_path):
    state = StateBackend()
    backend = CompositeBackend(state, {"/memories/": FilesystemBackend(root_dir=tmp_path, virtual_mode=True)})
    assert backend.write("/workspace/plan.md", "plan").error is None
    assert backend.write("/memories/agent.md", "facts").path == "/memories/agent.md"
    assert list(state.take_pending()) == ["/workspace/plan.md"]
    assert (tmp_path / "agent.md").read_text() == "facts"


def test_the_longest_prefix_wins(composite, memories, projects):
    assert composite.write("/memories/projects/new.md", "x").path == "/memories/projects/new.md"
    assert composite.write("/memories/new.md", "x").path == "/memories/new.md"
    assert set(projects.kept) == {"/p.md", "/new.md"}
    assert set(memories.kept) == {"/agent.md", "/old/log.md", "/new.md"}


def test_a_route_ends_where_a_name_ends(composite, default):
    composite.write("/memoriesX", "x")
    assert "/memoriesX" in default.kept


@pytest.mark.parametrize("route", ["/memories", "/memories/", "//memories/./"])
def test_a_closing_slash_makes_no_difference(route, memories):
    backend = CompositeBackend(Memory(), {route: memories})
    assert list(backend.routes) == ["/memories/"]
    assert backend.read("/memories//agent.md").content == "todo three\n"
    assert paths(backend.ls("/memories")) == paths(backend.ls("/memories/")) == ["/memories/agent.md", "/memories/old/"]


def test_relative_paths_begin_at_the_root_without_a_sandbox(composite):
    assert composite.read("memories/agent.md").content == "todo three\n"


def test_relative_paths_begin_where_those_of_the_sandbox_do():
    box = Rooted({"/workspace/a.md": "x"})
    notes = Memory({"/n.md": "y"})
    backend = CompositeBackend(box, {"/workspace/notes": notes, "/notes": Memory()})
    assert backend.read("a.md").content == "x"
    assert backend.read("notes/n.md").content == "y"


def test_relative_paths_are_refused_where_nobody_knows_where_they_begin():
    backend = CompositeBackend(Box(), {"/notes": Memory()})
    assert backend.read("notes/n.md").error == "Error: Path 'notes/n.md' is relative: give an absolute path"
    assert backend.upload_files([("n.md", b"")])[0].error == "invalid_path"


@pytest.mark.parametrize("path", ["/memories/../plan.md", "/a\0b", "", "/.."])
def test_a_path_that_climbs_is_refused_by_every_method(composite, path):
    answers = [
        composite.ls(path),
        composite.read(path),
        composite.read_raw(path),
        composite.write(path, ""),
        composite.edit(path, "a", "b"),
        composite.delete(path),
        composite.grep("x", path),
        composite.glob("*", path),
    ]
    assert all(answer.error and answer.error.startswith("Error: Path") for answer in answers)
    assert composite.upload_files([(path, b"")])[0].error == composite.download_files([path])[0].error == "invalid_path"


def test_a_childs_error_names_the_path_that_was_asked_for(composite):
    assert composite.read("/memories/x.md").error == "Error: File '/memories/x.md' not found"
    assert composite.ls("/memories/none").error == "Error: Directory '/memories/none' not found"
    assert composite.ls("/memories/agent.md").error == "Error: '/memories/agent.md' is not a directory"
    assert "'/memories/agent.md' exists already" in composite.write("/memories/agent.md", "").error
    assert composite.edit("/memories/agent.md", "no", "").error == "Error: old_string was not found in '/memories/agent.md'"
    assert composite.read("/memories").error == "Error: '/memories' is a directory"
    assert composite.read_raw("/memories/x.md").error == "Error: File '/memories/x.md' not found"


def test_every_operation_reaches_the_backend_that_has_the_path(composite, memories):
    assert composite.edit("/memories/agent.md", "three", "3") == p.EditResult(path="/memories/agent.md", occurrences=1)
    assert composite.read_raw("/memories/agent.md").data["content"] == "todo 3\n"
    assert composite.delete("/memories/old") == p.DeleteResult(path="/memories/old")
    assert set(memories.kept) == {"/agent.md"}


# -- listings


def test_routes_are_folders_of_the_root(composite):
    assert paths(composite.ls("/")) == ["/memories/", "/plan.md", "/src/"]
    assert paths(composite.ls("/memories")) == ["/memories/agent.md", "/memories/old/", "/memories/projects/"]


def test_a_deep_route_shows_in_each_folder_above_it(default):
    backend = CompositeBackend(default, {"/a/b/": Memory({"/f": ""}), "/a/c": Memory(), "/src/gen": Memory()})
    assert paths(backend.ls("/")) == ["/a/", "/plan.md", "/src/"]
    assert paths(backend.ls("/a")) == ["/a/b/", "/a/c/"]
    assert paths(backend.ls("/src")) == ["/src/gen/", "/src/main.py"]
    assert paths(backend.ls("/a/b")) == ["/a/b/f"]
    assert backend.ls("/a/c").entries == []


def test_a_folder_above_a_route_is_a_folder_to_every_operation(default):
    backend = CompositeBackend(default, {"/a/b/": Memory()})
    assert backend.read("/a").error == backend.edit("/a", "x", "y").error == "Error: '/a' is a directory"
    assert "'/a' exists already" in backend.write("/a", "").error
    assert backend.upload_files([("/a", b"")])[0].error == backend.download_files(["/a"])[0].error == "is_directory"


def test_what_the_default_has_below_a_route_is_hidden(memories):
    under = Memory({"/memories/secret.md": "todo", "/memories/agent.md": "todo", "/a": "todo", "/x.md": "todo"})
    backend = CompositeBackend(under, {"/memories": memories, "/a/b": Memory()})
    assert paths(backend.ls("/")) == ["/a/", "/memories/", "/x.md"]
    assert paths(backend.glob("**/*")) == ["/memories/agent.md", "/memories/old/log.md", "/x.md"]
    assert paths(backend.grep("todo")) == ["/memories/agent.md", "/x.md"]
    assert backend.read("/memories/secret.md").error == "Error: File '/memories/secret.md' not found"


# -- searches


@pytest.mark.parametrize("path", [None, "/"])
def test_a_search_of_everything_asks_the_default_and_every_route(composite, path):
    every = ["/memories/agent.md", "/memories/projects/p.md", "/plan.md", "/src/main.py"]
    assert paths(composite.grep("todo", path)) == every
    assert paths(composite.glob("*.md", path)) == [
        "/memories/agent.md",
        "/memories/old/log.md",
        "/memories/projects/p.md",
        "/plan.md",
    ]


def test_a_search_of_a_folder_asks_only_who_has_a_part_in_it(composite, default, projects):
    assert paths(composite.grep("todo", "/memories")) == ["/memories/agent.md", "/memories/projects/p.md"]
    assert paths(composite.grep("todo", "/src")) == ["/src/main.py"]
    assert [asked[1] for asked in default.asked] == ["/src"]
    assert paths(composite.grep("todo", "/memories/agent.md")) == ["/memories/agent.md"]
    assert len(projects.asked) == 1


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("memories/*.md", "/", ["/memories/agent.md"]),
        ("/memories/**/*.md", "/", ["/memories/agent.md", "/memories/old/log.md", "/memories/projects/p.md"]),
        ("**/*.md", None, ["/memories/agent.md", "/memories/old/log.md", "/memories/projects/p.md", "/plan.md"]),
        ("mem*/*/*.md", "/", ["/memories/old/log.md", "/memories/projects/p.md"]),
        ("{src,memories/projects}/*", "/", ["/memories/projects/p.md", "/src/main.py"]),
        ("projects/*", "/memories", ["/memories/projects/p.md"]),
        ("/*.md", "/", ["/plan.md"]),
        ("/*.md", "/memories", ["/memories/agent.md"]),
        ("**", "/memories", ["/memories/agent.md", "/memories/old/log.md", "/memories/projects/p.md"]),
        ("*/[!a]*", "/memories", ["/memories/old/log.md", "/memories/projects/p.md"]),
        ("memories", "/", []),
        ("/", "/", []),
    ],
)
def test_patterns_with_folders_match_across_routes(composite, pattern, path, found):
    assert paths(composite.glob(pattern, path)) == found


def test_hidden_folders_are_crossed_only_when_they_are_named():
    backend = CompositeBackend(Memory(), {"/.cfg": Memory({"/a.md": "x", "/.b/c.md": "x"})})
    assert paths(backend.glob("*.md")) == []
    assert paths(backend.glob(".cfg/*.md")) == ["/.cfg/a.md"]
    assert paths(backend.glob(".cfg/.b/*")) == ["/.cfg/.b/c.md"]


def test_the_files_of_a_grep_are_chosen_by_the_same_patterns(composite):
    assert paths(composite.grep("todo", "/", "memories/*.md")) == ["/memories/agent.md"]
    assert paths(composite.grep("todo", None, "*.py")) == ["/src/main.py"]
    assert paths(composite.grep("todo", None, "")) == paths(composite.grep("todo"))


def test_a_relative_pattern_begins_in_the_working_directory_when_no_path_is_given():
    box = Rooted({"/workspace/a.md": "x"})
    backend = CompositeBackend(box, {"/workspace/notes": Memory({"/n.md": "x"}), "/docs": Memory({"/d.md": "x"})})
    assert "/workspace/notes/n.md" in paths(backend.glob("notes/*.md"))
    assert "/docs/d.md" in paths(backend.glob("docs/*.md"))


def test_max_count_holds_for_all_backends_together(composite):
    result = composite.grep("todo", max_count=3)
    assert paths(result) == ["/memories/agent.md", "/memories/projects/p.md", "/plan.md"]
    assert result.truncated
    assert not composite.grep("todo", max_count=4).truncated
    assert composite.grep("todo", max_count=0) == p.GrepResult(matches=[], truncated=True)


def test_hidden_matches_do_not_use_up_max_count():
    under = Memory({f"/a/{number}": "todo" for number in range(5)} | {"/b": "todo"})
    backend = CompositeBackend(under, {"/a": Memory()})
    assert paths(backend.grep("todo", max_count=2)) == ["/b"]


def test_a_bad_pattern_is_one_error(composite):
    assert composite.glob("../*").error == "Error: glob pattern '../*' is empty or contains '..'"
    assert composite.grep("x", None, "../*").error == "Error: glob pattern '../*' is empty or contains '..'"
    assert composite.grep("").error == "Error: the pattern must not be empty"


class Broken(Memory):
    def grep(self, pattern, path=None, glob=None, *, max_count=None):
        return p.GrepResult(error=f"Error: '{path}' cannot be used: permission denied")

    def glob(self, pattern, path=None):
        return p.GlobResult(error=f"Error: '{path}' cannot be used: permission denied")


def test_one_backends_failure_does_not_hide_what_the_others_found(composite, default):
    backend = CompositeBackend(default, {"/broken": Broken()})
    assert backend.grep("one") == p.GrepResult(matches=[{"path": "/plan.md", "line": 1, "text": "todo one"}], truncated=True)
    found = backend.glob("*.md")
    assert (paths(found), found.truncated, found.truncation_reason) == (["/plan.md"], True, "unreadable")


def test_when_every_backend_fails_the_search_fails():
    backend = CompositeBackend(Broken(), {"/broken": Broken()})
    assert backend.grep("x", "/broken").error == "Error: '/broken' cannot be used: permission denied"
    assert backend.grep("x", "/").error == "Error: '/' cannot be used: permission denied"


def test_a_folder_that_only_routes_are_in_can_be_searched(default):
    backend = CompositeBackend(default, {"/a/b": Memory({"/f.md": "todo"})})
    assert backend.grep("todo", "/a") == p.GrepResult(matches=[{"path": "/a/b/f.md", "line": 1, "text": "todo"}])
    assert not backend.glob("*.md", "/a").truncated
    assert backend.glob("c/*.md", "/a") == p.GlobResult(matches=[])
    assert "'/nowhere' not found" in backend.grep("todo", "/nowhere").error


# -- batches


def test_batches_go_to_each_backend_in_one_call_and_keep_their_order(composite, default, memories):
    files = [("/memories/1", b"1"), ("/2", b"2"), ("/a/../b", b""), ("/memories/3", b"3"), ("/src", b"")]
    answers = composite.upload_files(files)
    assert [answer.path for answer in answers] == [path for path, _ in files]
    assert [answer.error for answer in answers] == [None, None, "invalid_path", None, "is_directory"]
    assert default.asked == [("upload", ["/2", "/src"])]
    assert memories.asked == [("upload", ["/1", "/3"])]
    wanted = ["/memories/3", "/none", "/2", "/memories", "/memories/1"]
    downloads = composite.download_files(wanted)
    assert [answer.path for answer in downloads] == wanted
    assert [answer.content for answer in downloads] == [b"3", None, b"2", None, b"1"]
    assert [answer.error for answer in downloads] == [None, "file_not_found", None, "is_directory", None]


# -- deleting what holds routes


@pytest.mark.parametrize("path", ["/memories", "/memories/", "/memories/projects", "/a", "/a/b"])
def test_a_route_and_what_is_above_it_cannot_be_deleted(memories, projects, path):
    backend = CompositeBackend(Memory(), {"/memories": memories, "/memories/projects": projects, "/a/b": Memory()})
    assert "another backend is mounted at" in backend.delete(path).error
    assert "/agent.md" in memories.kept


def test_the_root_cannot_be_deleted(composite):
    assert "'/' cannot be deleted" in composite.delete("/").error
    assert CompositeBackend(Memory()).delete("/").error == "Error: '/' cannot be deleted"


async def test_the_async_forms_give_the_same(composite):
    assert await composite.als("/") == composite.ls("/")
    assert await composite.aread("/memories/agent.md") == composite.read("/memories/agent.md")
    assert await composite.aread_raw("/memories/x") == composite.read_raw("/memories/x")
    assert await composite.agrep("todo", max_count=2) == composite.grep("todo", max_count=2)
    assert await composite.aglob("**/*.md") == composite.glob("**/*.md")
    assert (await composite.awrite("/memories/new", "x")).path == "/memories/new"
    assert (await composite.aedit("/memories/new", "x", "y")).occurrences == 1
    assert (await composite.adelete("/memories/new")).path == "/memories/new"
    assert [one.error for one in await composite.aupload_files([("/u", b""), ("/memories/u", b"")])] == [None, None]
    assert [one.content for one in await composite.adownload_files(["/memories/u", "/u"])] == [b"", b""]


async def test_the_async_forms_ask_the_backends_at_the_same_time():
    here, there = asyncio.Event(), asyncio.Event()

    class Meeting(Memory):
        def __init__(self, mine, other):
            super().__init__()
            self.mine, self.other = mine, other

        async def agrep(self, pattern, path=None, glob=None, *, max_count=None):
            self.mine.set()
            await self.other.wait()
            return p.GrepResult(matches=[])

    backend = CompositeBackend(Meeting(here, there), {"/m": Meeting(there, here)})
    assert (await asyncio.wait_for(backend.agrep("x"), 30)).matches == []


async def test_who_overrides_a_sync_method_is_asked_in_both_forms():
    class Guarded(CompositeBackend):
        def write(self, file_path, content):
            return p.WriteResult(error="no")

        def execute(self, command, *, timeout=None):
            return p.ExecuteResponse(output="no")

    backend = Guarded(Box())
    assert backend.write("/a", "").error == (await backend.awrite("/a", "")).error == "no"
    assert backend.execute("ls").output == (await backend.aexecute("ls")).output == "no"


def test_memories_of_the_seeds_stay_over_threads():
    from langgraph.store.memory import InMemoryStore

    store = InMemoryStore()
    first, second = (
        CompositeBackend(StateBackend(), {"/memories/": StoreBackend(store=store, namespace=("me",))}) for _ in range(2)
    )
    first.write("/memories/facts.md", "blue")
    first.write("/draft.md", "x")
    assert second.read("/memories/facts.md").content == "blue"
    assert second.read("/draft.md").error == "Error: File '/draft.md' not found"


def test_relative_paths_of_real_files_begin_at_their_root(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("here")
    backend = CompositeBackend(FilesystemBackend(tmp_path), {"/memories/": Memory()})
    assert backend.read("a.txt").content == "here"
    assert backend.read(str(tmp_path / "a.txt")).content == "here"
