from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.types import Send

from sandboxes.backends.state import FilesState, StateBackend, merge_files


class Chat(FilesState):
    messages: Annotated[list[AnyMessage], add_messages]


class Work(FilesState):
    answers: Annotated[list[Any], lambda left, right: left + right]


def graph(*nodes: Callable[[Any], Any], checkpointer: Any = None) -> Any:
    """These nodes, one after the other."""
    builder = StateGraph(Work)
    before = START
    for number, node in enumerate(nodes):
        builder.add_node(str(number), node)
        builder.add_edge(before, str(number))
        before = str(number)
    builder.add_edge(before, END)
    return builder.compile(checkpointer=checkpointer)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def test_the_reducer_lays_new_files_over_old_ones_and_none_deletes() -> None:
    assert merge_files(None, {"/a": 1, "/b": None}) == {"/a": 1}
    assert merge_files({"/a": 1, "/b": 2}, {"/b": None, "/c": 3}) == {"/a": 1, "/c": 3}
    assert merge_files({"/a": 1}, None) == {"/a": 1}
    left = {"/a": 1}
    assert merge_files(left, {"/a": 2}) == {"/a": 2}
    assert left == {"/a": 1}


def test_what_a_node_writes_is_there_at_once_in_later_nodes_and_in_the_state() -> None:
    backend = StateBackend()

    def first(_: Any) -> Any:
        written = backend.write("/a.txt", "one\n")
        assert written.files_update is None
        return {"answers": [backend.read("/a.txt").content, backend.write("/a.txt", "again").error is None]}

    def second(_: Any) -> Any:
        assert backend.edit("/a.txt", "one", "two").files_update is None
        backend.upload_files([("/b", b"\0"), ("/gone", b"")])
        backend.delete("/gone")
        return {"answers": [backend.read("/a.txt").content]}

    state = graph(first, second).invoke({"answers": []})
    assert state["answers"] == ["one\n", False, "two\n"]
    assert sorted(state["files"]) == ["/a.txt", "/b"]
    assert state["files"]["/a.txt"]["content"] == "two\n"
    assert state["files"]["/a.txt"]["created_at"] < state["files"]["/a.txt"]["modified_at"]


async def test_the_async_forms_work_in_async_nodes() -> None:
    backend = StateBackend()

    async def node(_: Any) -> Any:
        await backend.awrite("/a", "needle")
        await backend.aedit("/a", "needle", "pin")
        await backend.aupload_files([("/b", b"1"), ("/c", b"2")])
        await backend.adelete("/c")
        found = await backend.agrep("pin"), await backend.aglob("*"), await backend.als("/")
        assert [len(found[0].matches or []), len(found[1].matches or []), len(found[2].entries or [])] == [1, 2, 2]
        assert (await backend.adownload_files(["/b"]))[0].content == b"1"
        return {"answers": [(await backend.aread("/a")).content, (await backend.aread_raw("/a")).error]}

    state = await graph(node).ainvoke({"answers": []})
    assert state["answers"] == ["pin", None]
    assert sorted(state["files"]) == ["/a", "/b"]


def test_a_file_that_is_passed_in_as_none_is_deleted() -> None:
    app = graph(lambda _: {"answers": []}, checkpointer=InMemorySaver())
    assert app.invoke({"answers": [], "files": {"/a": None, "/b": {}}}, thread("1"))["files"] == {"/b": {}}
    assert app.invoke({"answers": [], "files": {"/b": None}}, thread("1"))["files"] == {}


def test_files_that_are_passed_in_are_read_in_either_format() -> None:
    backend = StateBackend()
    old = {"content": ["a", "b"], "created_at": "", "modified_at": ""}
    files = {"/old": old, "/new": {"content": "c", "encoding": "utf-8"}}
    node = lambda _: {"answers": [backend.read("/old").content, backend.read("/new").content]}  # noqa: E731
    assert graph(node).invoke({"answers": [], "files": files})["answers"] == ["a\nb", "c"]


def test_the_first_format_is_written_when_it_is_asked_for() -> None:
    backend = StateBackend(file_format="v1")
    state = graph(lambda _: {"answers": [backend.write("/a", "x\ny").error]}).invoke({"answers": []})
    assert state["files"]["/a"]["content"] == ["x", "y"]


def test_files_stay_with_their_thread() -> None:
    backend = StateBackend()

    def node(_: Any) -> Any:
        return {"answers": [backend.read("/a").content, backend.write("/a", "here").error is None]}

    app = graph(node, checkpointer=InMemorySaver())
    assert app.invoke({"answers": []}, thread("1"))["answers"] == [None, True]
    assert app.invoke({"answers": []}, thread("1"))["answers"] == [None, True, "here", False]
    assert app.invoke({"answers": []}, thread("2"))["answers"] == [None, True]


def test_a_deleted_file_is_gone_from_the_thread() -> None:
    backend = StateBackend()
    app = graph(lambda _: {"answers": [backend.delete("/dir").error]}, checkpointer=InMemorySaver())
    kept = {"content": "", "encoding": "utf-8"}
    state = app.invoke({"answers": [], "files": {"/dir/a": kept, "/dir/b": kept, "/dirt": kept}}, thread("1"))
    assert state["answers"] == [None]
    assert list(state["files"]) == ["/dirt"]


def test_tasks_of_one_step_that_write_different_files_keep_them_all() -> None:
    backend = StateBackend()
    builder = StateGraph(Work)

    def write(number: Any) -> Any:
        backend.write(f"/{number}", "x")
        return {"answers": [len(backend.ls("/").entries or [])]}

    builder.add_node("write", write)
    builder.add_conditional_edges(START, lambda _: [Send("write", number) for number in range(20)], ["write"])
    state = builder.compile(checkpointer=InMemorySaver()).invoke({"answers": []}, thread("1"))
    assert len(state["files"]) == 20
    assert state["answers"] == [1] * 20  # none sees what the others write in the same step


def calls(count: int) -> AIMessage:
    numbers = map(str, range(count))
    return AIMessage("", tool_calls=[{"name": "write", "args": {"path": f"/{number}"}, "id": number} for number in numbers])


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_tool_calls_that_share_a_task_do_not_disturb_each_other(asynchronous: bool) -> None:
    backend = StateBackend()

    @tool
    def write(path: str) -> str:
        """Write a file."""
        return backend.write(path, "x").error or backend.read(path).error or "written"

    async def awrite(path: str) -> str:
        return (await backend.awrite(path, "x")).error or (await backend.aread(path)).error or "written"

    if asynchronous:
        write.coroutine = awrite  # type: ignore[attr-defined]
    builder = StateGraph(Chat)
    builder.add_node("tools", ToolNode([write]))
    builder.add_edge(START, "tools")
    app, start = builder.compile(), {"messages": [calls(30)]}
    state = await app.ainvoke(start) if asynchronous else app.invoke(start)
    assert [message.content for message in state["messages"][1:]] == ["written"] * 30
    assert len(state["files"]) == 30


def test_what_is_written_outside_of_a_run_waits_for_one() -> None:
    backend = StateBackend()
    backend.upload_files([("/a", b"one"), ("/b", b"two")])
    assert backend.edit("/a", "one", "1").files_update is None
    assert backend.delete("/b").error is None
    assert backend.read("/b").error == "Error: File '/b' not found"
    assert backend.read("/a").content == "1"
    taken = backend.take_pending()
    assert sorted(taken) == ["/a", "/b"]
    assert taken["/b"] is None
    assert backend.take_pending() == {}
    assert backend.read("/a").error == "Error: File '/a' not found"


def test_the_first_call_in_a_run_takes_what_waited() -> None:
    backend = StateBackend()
    backend.write("/a", "early")
    state = graph(lambda _: {"answers": [backend.read("/a").content]}).invoke({"answers": []})
    assert state["answers"] == ["early"]
    assert list(state["files"]) == ["/a"]
    assert backend.ls("/").entries == []


def test_threads_outside_of_a_run_may_share_an_instance() -> None:
    backend = StateBackend()
    backend.write("/a", " ".join(f"<{number}>" for number in range(30)))
    threads = [threading.Thread(target=backend.edit, args=("/a", f"<{number}>", str(number))) for number in range(30)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert backend.read("/a").content == " ".join(map(str, range(30)))


def test_a_graph_without_files_in_its_state_is_told_so() -> None:
    class Bare(TypedDict):
        x: int

    backend = StateBackend()
    builder = StateGraph(Bare)
    builder.add_node("node", lambda _: {"x": len(backend.ls("/").entries or [])})
    builder.add_edge(START, "node")
    with pytest.raises(RuntimeError, match="has no `files`"):
        builder.compile().invoke({"x": 1})


def test_a_state_whose_files_are_something_else_is_told_so() -> None:
    class Odd(TypedDict):
        files: list[str]

    backend = StateBackend()
    builder = StateGraph(Odd)
    builder.add_node("node", lambda _: {"files": [str(backend.ls("/"))]})
    builder.add_edge(START, "node")
    with pytest.raises(TypeError, match="is a list, not a dict of files"):
        builder.compile().invoke({"files": ["a"]})


def test_the_state_has_a_schema_that_can_be_shown() -> None:
    assert "files" in graph(lambda _: None).get_input_jsonschema()["properties"]


# -- deprecated forms


def test_a_state_dict_is_read_and_changed_and_results_tell_the_update() -> None:
    state: dict[str, Any] = {}
    with pytest.warns(DeprecationWarning, match=r"StateBackend\(\) finds the state") as caught:
        backend = StateBackend(state)
    assert [warning.filename for warning in caught] == [__file__]
    written = backend.write("/hello.txt", "Hello, world!")
    assert written.files_update is not None
    assert written.files_update["/hello.txt"]["content"] == ["Hello, world!"]
    assert state["files"] == written.files_update
    files = state.get("files", {})
    files.update(written.files_update)
    state["files"] = files
    edited = backend.edit("/hello.txt", "world", "you")
    assert edited.files_update is not None
    assert state["files"]["/hello.txt"]["content"] == edited.files_update["/hello.txt"]["content"] == ["Hello, you!"]
    assert backend.delete("/hello.txt").error is None
    assert state == {"files": {}}


def test_the_files_of_a_state_are_replaced_and_not_changed_under_those_who_hold_them() -> None:
    files: dict[str, Any] = {}
    state = {"files": files}
    with pytest.warns(DeprecationWarning, match="a state"):
        StateBackend(state).write("/a", "x")
    assert files == {}
    assert list(state["files"]) == ["/a"]


async def test_a_state_dict_works_in_async_forms_too() -> None:
    with pytest.warns(DeprecationWarning, match="a state"):
        backend = StateBackend({"files": {"/a": {"content": ["x"], "created_at": "", "modified_at": ""}}})
    assert (await backend.aread("/a")).content == "x"


class Session:
    """A state that is no dict, as adk's: it has `get` and items, and notes what is set."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.noted: list[str] = []

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    def __setitem__(self, key: str, value: Any) -> None:
        self.noted.append(key)
        self.values[key] = value


def test_a_session_that_notes_changes_notes_every_write() -> None:
    session = Session()
    with pytest.warns(DeprecationWarning, match="a state"):
        backend = StateBackend(session)
    backend.write("/a", "1")
    backend.edit("/a", "1", "2")
    assert session.noted == ["files", "files"]
    assert session.values["files"]["/a"]["content"] == ["2"]


class Runtime:
    """What a factory is given outside of a graph."""

    def __init__(self, state: Any) -> None:
        self.state = state


def test_a_runtime_outside_of_a_run_gives_its_state() -> None:
    state: dict[str, Any] = {"files": {}}
    with pytest.warns(DeprecationWarning, match="a runtime") as caught:
        backend = StateBackend(Runtime(state))
    assert [warning.filename for warning in caught] == [__file__]
    written = backend.write("/a", "x")
    assert written.files_update == state["files"]
    assert state["files"]["/a"]["content"] == "x"


def test_a_factory_in_a_run_writes_to_the_state_of_the_graph() -> None:
    @tool
    def write(path: str, runtime: ToolRuntime) -> str:
        """Write a file."""
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            backend = StateBackend(runtime)
        written = backend.write(path, "x")
        return "written" if written.files_update is None else "an update to merge"

    builder = StateGraph(Chat)
    builder.add_node("tools", ToolNode([write]))
    builder.add_edge(START, "tools")
    state = builder.compile().invoke({"messages": [calls(1)]})
    assert state["messages"][-1].content == "written"
    assert list(state["files"]) == ["/0"]
