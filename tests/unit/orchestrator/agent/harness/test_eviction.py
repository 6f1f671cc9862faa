"""Texts that are too long for a conversation: where they go, and what stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from orchestrator.agent.harness import eviction
from orchestrator.agent.harness.filesystem import FilesystemMiddleware
from orchestrator.agent.scripted import ScriptedChatModel
from sandboxes import protocol as p
from sandboxes.backends import CompositeBackend, StateBackend
from sandboxes.backends.layered.steps import run

Scripted = Callable[..., ScriptedChatModel]
GO: Any = {"messages": [HumanMessage("go")]}
LONG = "".join(f"line {number}\n" for number in range(20_000))


@tool
def produce(text: str = LONG) -> str:
    """Says something long."""
    return text


@tool
def both(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Says something long, and something short, and changes the state."""
    messages = [ToolMessage(LONG, tool_call_id=tool_call_id, name="both"), HumanMessage("short")]
    return Command(update={"messages": messages})


class ToollessFiles(FilesystemMiddleware):
    """For a model that takes no tools."""

    def __init__(self) -> None:
        super().__init__()
        self.tools = []


def agent_with(model: Any, **options: Any) -> Any:
    return create_agent(model, [produce, both], middleware=[FilesystemMiddleware(**options)])


def result(state: Any, call_id: str = "a1") -> ToolMessage:
    return next(m for m in state["messages"] if isinstance(m, ToolMessage) and m.tool_call_id == call_id)


def text_in(state: Any, path: str) -> str:
    return str(state["files"][path]["content"])


@pytest.mark.parametrize("name", ["produce", "both"])
def test_a_long_result_goes_to_a_file_and_its_beginning_and_end_stay(scripted: Scripted, name: str) -> None:
    for run_it in (lambda agent: agent.invoke(GO), lambda agent: asyncio.run(agent.ainvoke(GO))):
        state = run_it(agent_with(scripted([(name, {})])))
        assert text_in(state, "/large_tool_results/a1") == LONG
        told = result(state).text
        assert told.startswith(f"[This result is too long: {len(LONG)} characters in 20001 lines.")
        assert "All of it is in /large_tool_results/a1: read it" in told
        assert "     5\tline 4\n[... 19990 lines ...]\n 19996\tline 19995" in told
        assert told.endswith(" 20000\tline 19999")


def test_what_was_put_to_a_file_can_be_read_back_in_windows(scripted: Scripted) -> None:
    read = {"file_path": "/large_tool_results/a1", "offset": 12_345, "limit": 1}
    state = agent_with(scripted([("produce", {})], [("read_file", read)])).invoke(GO)
    assert "line 12345" in result(state, "b1").text


def test_the_limit_is_in_tokens_of_four_characters_and_can_be_switched_off(scripted: Scripted) -> None:
    def goes(length: int, limit: int | None) -> bool:
        model = scripted([("produce", {"text": "x" * length})])
        return bool(agent_with(model, tool_token_limit_before_evict=limit).invoke(GO)["files"])

    assert not goes(400, 100)
    assert goes(401, 100)
    assert goes(80_001, 20_000)
    assert not goes(80_001, None)


def test_a_line_of_a_preview_is_not_long_itself(scripted: Scripted) -> None:
    state = agent_with(scripted([("produce", {"text": "x" * 10**6})])).invoke(GO)
    assert len(result(state).text) < 2000


def test_results_of_the_file_tools_stay_because_they_page_by_themselves(scripted: Scripted) -> None:
    write = ("write_file", {"file_path": "/f", "content": "y" * 500})
    model = scripted([write], [("read_file", {"file_path": "/f"})])
    state = agent_with(model, tool_token_limit_before_evict=10).invoke(GO)
    assert "y" * 500 in result(state, "b1").text


def test_a_result_stays_when_it_cannot_be_written(scripted: Scripted) -> None:
    class Full(StateBackend):
        def write(self, file_path: str, content: str) -> p.WriteResult:
            return p.WriteResult(error="Error: full")

        def upload_files(self, files: Any) -> Any:
            raise OSError("full")

    assert result(agent_with(scripted([("produce", {})]), backend=Full()).invoke(GO)).text == LONG


def test_two_results_under_one_id_are_two_files() -> None:
    store = eviction.Store(StateBackend(), "")
    messages = [ToolMessage(text * 100, tool_call_id="call_0") for text in ("a", "b", "b")]
    told = [str(run(eviction.evict_result(message, store, 1)).text) for message in messages]  # type: ignore[union-attr]
    paths = [text.split("All of it is in ")[1].split(":")[0] for text in told]
    assert paths[0] == "/large_tool_results/call_0"
    assert paths[1] == paths[2] != paths[0]
    [found] = store.backend.download_files([paths[1]])
    assert found.content == b"b" * 100


@pytest.mark.parametrize("call_id", ["../../etc/passwd", "a/b", "a\\b", "", "x" * 500, "a\0b", "..", "é\n"])
def test_an_id_names_a_file_in_the_folder_whatever_is_in_it(call_id: str) -> None:
    backend = StateBackend()
    run(eviction.evict_result(ToolMessage("x" * 100, tool_call_id=call_id), eviction.Store(backend, ""), 1))
    [path] = backend.take_pending()
    assert path.startswith("/large_tool_results/")
    assert path.count("/") == 2
    assert len(path) < 130


def test_the_root_of_the_artifacts_is_the_backends(scripted: Scripted) -> None:
    backend = CompositeBackend(default=StateBackend(), artifacts_root="/mine")
    state = agent_with(scripted([("produce", {})]), backend=backend).invoke(GO)
    assert text_in(state, "/mine/large_tool_results/a1") == LONG


def test_a_humans_long_message_goes_to_a_file_once() -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("yes"), AIMessage("no")]))
    agent = create_agent(model, middleware=[ToollessFiles()], checkpointer=InMemorySaver())
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    blocks: Any = [{"type": "text", "text": LONG * 2}, image]
    config: Any = {"configurable": {"thread_id": "t"}}
    state = agent.invoke({"messages": [HumanMessage(blocks, id="m1")]}, config)
    first = state["messages"][0]
    assert (first.id, first.content[1]) == ("m1", image)
    assert first.text.startswith("[This message is too long:")
    assert text_in(state, "/large_messages/m1") == LONG * 2
    again = agent.invoke({"messages": [HumanMessage("and now?")]}, config)
    assert again["messages"][0].text == first.text
    assert list(again["files"]) == ["/large_messages/m1"]


def test_a_humans_message_stays_when_that_is_switched_off(scripted: Scripted) -> None:
    state = agent_with(scripted(), human_message_token_limit_before_evict=None).invoke({"messages": [HumanMessage(LONG * 2)]})
    assert state["messages"][0].text == LONG * 2
