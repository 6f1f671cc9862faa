"""What the seeds' reference says of the two middlewares, and the eviction of large results in an agent of langchain's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool

from orchestrator.agent.harness import CompiledSubAgent, FilesystemMiddleware, FilesystemState, SubAgent, SubAgentMiddleware
from orchestrator.agent.harness.subagents import TASK_SYSTEM_PROMPT
from orchestrator.agent.scripted import ScriptedChatModel
from sandboxes.backends import CompositeBackend, StateBackend, StoreBackend

Scripted = Callable[..., ScriptedChatModel]
GO: Any = {"messages": [HumanMessage("go")]}
LINES = [f"line {number}: {'x' * 90}" for number in range(1, 1001)]


@tool
def report() -> str:
    """A long report."""
    return "\n".join(LINES)


def results(state: Any) -> dict[str, ToolMessage]:
    return {message.tool_call_id: message for message in state["messages"] if isinstance(message, ToolMessage)}


def keyword_defaults(kind: Any) -> dict[str, Any]:
    parameters = inspect.signature(kind).parameters.values()
    assert all(one.kind is one.KEYWORD_ONLY for one in parameters)
    return {one.name: one.default for one in parameters}


def test_the_filesystem_middleware_takes_the_arguments_of_the_reference() -> None:
    wanted = {
        "backend": None, "system_prompt": None, "custom_tool_descriptions": None, "tool_token_limit_before_evict": 20_000,
    }  # fmt: skip
    found = keyword_defaults(FilesystemMiddleware)
    assert {name: found[name] for name in wanted} == wanted


def test_the_subagent_middleware_takes_the_arguments_of_the_reference() -> None:
    wanted = {
        "default_model": inspect.Parameter.empty, "default_tools": None, "default_middleware": None,
        "default_interrupt_on": None, "subagents": None, "system_prompt": TASK_SYSTEM_PROMPT, "general_purpose_agent": True,
        "task_description": None,
    }  # fmt: skip
    found = keyword_defaults(SubAgentMiddleware)
    assert {name: found[name] for name in wanted} == wanted


HOOKS = [
    prefix + name
    for name in ("before_agent", "before_model", "after_model", "after_agent", "wrap_model_call", "wrap_tool_call")
    for prefix in ("", "a")
]


@pytest.mark.parametrize("name", HOOKS)
def test_both_middlewares_have_the_hooks_of_langchain(name: str) -> None:
    for kind in (FilesystemMiddleware, SubAgentMiddleware):
        assert issubclass(kind, AgentMiddleware)
        assert callable(getattr(kind, name))


def test_a_middleware_has_a_name_a_state_and_tools(scripted: Scripted) -> None:
    files = FilesystemMiddleware()
    assert files.name == "FilesystemMiddleware"
    assert files.state_schema is FilesystemState
    assert {tool.name for tool in files.tools} >= {"ls", "read_file", "write_file", "edit_file", "glob", "grep", "execute"}
    delegation = SubAgentMiddleware(default_model=scripted())
    assert delegation.name == "SubAgentMiddleware"
    assert [tool.name for tool in delegation.tools] == ["task"]


def test_a_subagent_is_told_by_these_keys() -> None:
    keys = {"name", "description", "system_prompt", "prompt", "tools", "model", "middleware", "interrupt_on"}
    assert keys <= set(SubAgent.__annotations__)
    assert set(CompiledSubAgent.__annotations__) == {"name", "description", "runnable"}


def test_the_middleware_stands_alone_in_an_agent_of_langchain(scripted: Scripted) -> None:
    hybrid = CompositeBackend(default=StateBackend(), routes={"/memories/": StoreBackend(namespace=("u",))})
    calls = [("write_file", {"file_path": "/a", "content": "x"})]
    for middleware in (FilesystemMiddleware(), FilesystemMiddleware(backend=hybrid)):
        state = create_agent(scripted(calls), middleware=[middleware]).invoke(GO)
        assert state["files"]["/a"]["content"] == "x"


def test_a_large_result_becomes_a_reference_and_can_be_read_piece_by_piece(scripted: Scripted) -> None:
    where = "/large_tool_results/a1"
    model = scripted([("report", {})], [("read_file", {"file_path": where, "offset": 500, "limit": 2})])
    found = results(create_agent(model, [report], middleware=[FilesystemMiddleware()]).invoke(GO))
    assert where in found["a1"].text
    assert len(found["a1"].text) < 3000
    assert found["b1"].text.splitlines()[0].endswith(LINES[500])
    assert LINES[501] in found["b1"].text


@pytest.mark.parametrize(("limit", "stays"), [(None, True), (30_000, True), (1000, False)])
def test_the_limit_of_a_result_can_be_changed_or_taken_away(scripted: Scripted, limit: int | None, stays: bool) -> None:
    files = FilesystemMiddleware(tool_token_limit_before_evict=limit)
    found = results(create_agent(scripted([("report", {})]), [report], middleware=[files]).invoke(GO))
    assert (found["a1"].text == "\n".join(LINES)) is stays


class Doubling(AgentMiddleware[Any, Any, Any]):
    """As the reference shows it: changes the arguments of a call, and tries again while it fails."""

    def __init__(self) -> None:
        self.tried = 0

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        call = {**request.tool_call, "args": {**request.tool_call["args"], "limit": request.tool_call["args"]["limit"] * 2}}
        for _ in range(3):
            self.tried += 1
            result = handler(request.override(tool_call=call))
            if result.status != "error":
                break
        return result


def test_a_users_middleware_may_change_a_call_of_ours_and_repeat_it(scripted: Scripted) -> None:
    backend = StateBackend()
    backend.write("/a", "1\n2\n3\n")
    calls = [("read_file", {"file_path": path, "limit": 1}) for path in ("/a", "/missing")]
    for number, call in enumerate(calls):
        doubling = Doubling()
        files = FilesystemMiddleware(backend=backend)
        found = results(create_agent(scripted([call]), middleware=[doubling, files]).invoke(GO))["a1"]
        assert (found.status, doubling.tried) == [("success", 1), ("error", 3)][number]
        if found.status == "success":
            assert "2\t2" in found.text
            assert "3\t3" not in found.text
