"""The middleware that gives an agent its files: which tools there are, what they do to state, and what their errors do."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from orchestrator.agent.harness.filesystem import FILES_PROMPT, FilesystemMiddleware
from orchestrator.agent.scripted import ScriptedChatModel
from sandboxes import protocol as p
from sandboxes.backends import CompositeBackend, PolicyBackend, StateBackend
from sandboxes.errors import SandboxGone

Scripted = Callable[..., ScriptedChatModel]
GO: Any = {"messages": [HumanMessage("go")]}


class Watched(ScriptedChatModel):
    """Remembers which tools it was offered, and what it was asked."""

    offered: list[Any] = []
    asked: list[Any] = []

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self.offered[:] = [one.name for one in tools]
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.asked[:] = messages
        return super()._generate(messages, *args, **kwargs)


def results(state: Any) -> dict[str, ToolMessage]:
    return {message.tool_call_id: message for message in state["messages"] if isinstance(message, ToolMessage)}


def agent_with(model: Any, **options: Any) -> Any:
    return create_agent(model, middleware=[FilesystemMiddleware(**options)])


@pytest.fixture
def watched(scripted: Scripted) -> Callable[..., Watched]:
    return lambda *turns: Watched(script=scripted(*turns).script, offered=[], asked=[])


class NoDelete(StateBackend):
    delete = p.BackendProtocol.delete
    adelete = p.BackendProtocol.adelete


def test_tools_that_the_backend_has_not_are_hidden(watched: Callable[..., Watched], backend: Any) -> None:
    for given, missing in ((None, {"execute"}), (NoDelete(), {"execute", "delete"}), (backend, set())):
        model = watched()
        agent_with(model, backend=given).invoke(GO)
        every = {"ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep", "execute"}
        assert set(model.offered) == every - missing


def test_a_users_own_tool_of_the_same_name_is_not_hidden(watched: Callable[..., Watched]) -> None:
    @tool
    def execute(command: str) -> str:
        """Mine."""
        return f"mine: {command}"

    model = watched([("execute", {"command": "x"})])
    state = create_agent(model, [execute], middleware=[FilesystemMiddleware()]).invoke(GO)
    assert "execute" in model.offered
    assert results(state)["a1"].text == "mine: x"


def test_execute_without_a_sandbox_is_an_error_in_clear_words(scripted: Scripted) -> None:
    message = results(agent_with(scripted([("execute", {"command": "ls"})])).invoke(GO))["a1"]
    assert message.status == "error"
    assert "no command can be run here" in message.text


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_files_go_into_the_agents_state_in_every_way_of_running_it(scripted: Scripted, way: str) -> None:
    model = scripted(
        [("write_file", {"file_path": "/a.txt", "content": "one"}), ("write_file", {"file_path": "/b/c", "content": "two"})],
        [("edit_file", {"file_path": "/a.txt", "old_string": "one", "new_string": "1"}), ("delete", {"file_path": "/b"})],
        [("glob", {"pattern": "**"}), ("read_file", {"file_path": "a.txt"})],
    )
    agent = agent_with(model)

    async def last_of(stream: Any) -> Any:
        return [state async for state in stream][-1]

    run: dict[str, Callable[[], Any]] = {
        "invoke": lambda: agent.invoke(GO),
        "ainvoke": lambda: asyncio.run(agent.ainvoke(GO)),
        "stream": lambda: list(agent.stream(GO, stream_mode="values"))[-1],
        "astream": lambda: asyncio.run(last_of(agent.astream(GO, stream_mode="values"))),
    }
    state = run[way]()
    assert {path: data["content"] for path, data in state["files"].items()} == {"/a.txt": "1"}
    assert results(state)["c1"].text == "/a.txt"
    assert results(state)["c2"].text == "     1\t1"


def test_many_files_written_in_one_answer_are_all_there(scripted: Scripted) -> None:
    calls = [("write_file", {"file_path": f"/f{n}", "content": str(n)}) for n in range(30)]
    assert len(agent_with(scripted(calls)).invoke(GO)["files"]) == 30


def test_what_was_written_before_the_run_is_there_in_it(scripted: Scripted) -> None:
    inner = StateBackend()
    inner.upload_files([("/early.txt", b"here")])
    backend = CompositeBackend(default=PolicyBackend(inner))
    state = agent_with(scripted([("read_file", {"file_path": "/early.txt"})]), backend=backend).invoke(GO)
    assert results(state)["a1"].text == "     1\there"
    assert "/early.txt" in state["files"]
    assert inner.take_pending() == {}


def test_a_factory_makes_the_backend_of_each_call_and_is_deprecated(scripted: Scripted) -> None:
    model = scripted([("write_file", {"file_path": "/x", "content": "y"})], [("read_file", {"file_path": "/x"})])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        middleware = FilesystemMiddleware(backend=lambda runtime: StateBackend(runtime))
        state = create_agent(model, middleware=[middleware]).invoke(GO)
    assert results(state)["b1"].text == "     1\ty"
    [warning] = [one for one in caught if "a backend factory is deprecated" in str(one.message)]
    assert warning.filename == __file__


def test_a_backend_that_leaves_its_files_to_the_harness_has_them_put_into_the_state(scripted: Scripted) -> None:
    class Leaves(StateBackend):
        def write(self, file_path: str, content: str) -> p.WriteResult:
            data = p.encoded(file_path, content.encode())
            return p.WriteResult(path=file_path, files_update={file_path: data})

    state = agent_with(scripted([("write_file", {"file_path": "/x", "content": "y"})]), backend=Leaves()).invoke(GO)
    assert state["files"]["/x"]["content"] == "y"
    assert results(state)["a1"].text == "Created /x"


@pytest.mark.parametrize("first", ["edit_file", "write_file", "delete"])
def test_of_two_changes_of_a_file_in_one_answer_the_second_is_an_error(scripted: Scripted, first: str) -> None:
    args = {
        "edit_file": {"old_string": "one", "new_string": "1"},
        "write_file": {"content": "z"},
        "delete": {},
    }
    model = scripted(
        [("write_file", {"file_path": "/f", "content": "one two"})],
        [
            (first, {"file_path": "//f", **args[first]}),
            ("edit_file", {"file_path": "/f", "old_string": "two", "new_string": "2"}),
            ("edit_file", {"file_path": "/other", "old_string": "two", "new_string": "2"}),
        ],
    )
    found = results(agent_with(model).invoke(GO))
    assert "changed by another call of the same answer" in found["b2"].text
    assert found["b2"].status == "error"
    assert "not found" in found["b3"].text


def test_the_exception_of_any_tool_becomes_an_error_message(scripted: Scripted) -> None:
    @tool
    def burst() -> str:
        """Bursts."""
        raise RuntimeError("boom\ud800")

    for run in (lambda agent: agent.invoke(GO), lambda agent: asyncio.run(agent.ainvoke(GO))):
        state = run(create_agent(scripted([("burst", {})]), [burst], middleware=[FilesystemMiddleware()]))
        message = results(state)["a1"]
        assert (message.status, message.text) == ("error", "Error: burst failed: RuntimeError: boom?")
        assert isinstance(state["messages"][-1], AIMessage)


def test_a_sandbox_that_fails_ends_the_run(scripted: Scripted) -> None:
    class Gone(StateBackend):
        def read(self, *args: Any, **kwargs: Any) -> p.ReadResult:
            raise SandboxGone("it is gone")

    agent = agent_with(scripted([("read_file", {"file_path": "/x"})]), backend=Gone())
    with pytest.raises(SandboxGone):
        agent.invoke(GO)


def test_a_backend_that_breaks_is_a_tools_error(scripted: Scripted) -> None:
    class Broken(StateBackend):
        def ls(self, path: str) -> p.LsResult:
            raise OSError("no route to host")

    message = results(agent_with(scripted([("ls", {})]), backend=Broken()).invoke(GO))["a1"]
    assert message.text == "Error: ls failed: OSError: no route to host"


def test_descriptions_can_be_replaced(watched: Callable[..., Watched]) -> None:
    middleware = FilesystemMiddleware(custom_tool_descriptions={"ls": "Lists."})
    assert {one.name: one.description for one in middleware.tools}["ls"] == "Lists."
    with pytest.raises(ValueError, match="no file tool 'list' to describe"):
        FilesystemMiddleware(custom_tool_descriptions={"list": "x"})


@pytest.mark.parametrize(("given", "said"), [(None, FILES_PROMPT), ("Be brief.", "Be brief.")])
def test_the_prompt_tells_of_the_files(watched: Callable[..., Watched], given: str | None, said: str) -> None:
    model = watched()
    agent = create_agent(model, system_prompt="First.", middleware=[FilesystemMiddleware(system_prompt=given)])
    agent.invoke(GO)
    assert model.asked[0].text == f"First.\n\n{said}"


def test_an_empty_prompt_adds_nothing(watched: Callable[..., Watched]) -> None:
    model = watched()
    agent_with(model, system_prompt="").invoke(GO)
    assert [message.type for message in model.asked] == ["human"]


def test_files_stay_with_their_thread(scripted: Scripted) -> None:
    model = scripted([("write_file", {"file_path": "/f", "content": "x"})])
    agent = create_agent(model, middleware=[FilesystemMiddleware()], checkpointer=InMemorySaver())
    one, two = ({"configurable": {"thread_id": name}} for name in "ab")
    agent.invoke(GO, one)
    assert list(agent.get_state(one).values["files"]) == ["/f"]
    assert "files" not in agent.get_state(two).values
