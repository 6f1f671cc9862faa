"""The whole agent: what it is made of, and what reaches its parts."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, TodoListMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel

from orchestrator.agent import FilesystemPermission, create_deep_agent
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel
from orchestrator.errors import BadInput
from sandboxes.backends import CompositeBackend, LocalShellBackend, StateBackend, StoreBackend

Scripted = Callable[..., ScriptedChatModel]
GO: Any = {"messages": [HumanMessage("go")]}
THREAD: Any = {"configurable": {"thread_id": "t"}}


class Watched(ScriptedChatModel):
    """Remembers which tools it was offered, and what it was asked."""

    offered: list[Any] = []
    asked: list[Any] = []

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self.offered[:] = [one["name"] if isinstance(one, dict) else one.name for one in tools]
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.asked[:] = messages
        return super()._generate(messages, *args, **kwargs)


def watched(model: ScriptedChatModel) -> Watched:
    return Watched(script=model.script, offered=[], asked=[])


def results(state: Any) -> dict[str, ToolMessage]:
    return {message.tool_call_id: message for message in state["messages"] if isinstance(message, ToolMessage)}


def answering(*texts: str) -> ScriptedChatModel:
    """A model for a subagent that says one thing."""
    return ScriptedChatModel(script=load_script(str({"turns": [{"text": text} for text in texts]}).encode(), "s.yaml"))


def task(kind: str = "general-purpose") -> tuple[str, dict[str, Any]]:
    return ("task", {"description": "do it", "subagent_type": kind})


def test_it_has_a_plan_files_and_subagents(scripted: Scripted) -> None:
    model = watched(scripted())
    create_deep_agent(model).invoke(GO)
    files = {"ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep"}
    assert set(model.offered) == {"write_todos", "task", *files}
    told = model.asked[0].text
    assert all(word in told for word in ("write_todos", "## Files", "`task`"))


def test_it_has_execute_where_commands_run(scripted: Scripted, tmp_path: Any) -> None:
    model = watched(scripted([("execute", {"command": "echo hi"})]))
    state = create_deep_agent(model, backend=LocalShellBackend(root_dir=tmp_path)).invoke(GO)
    assert "execute" in model.offered
    assert results(state)["a1"].text == "hi\n[Command succeeded with exit code 0]"


def test_the_users_prompt_comes_first_and_the_users_tools_are_there(scripted: Scripted) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    model = watched(scripted([("add", {"a": 1, "b": 2})]))
    state = create_deep_agent(model, [add], system_prompt="You count.").invoke(GO)
    assert model.asked[0].text.startswith("You count.\n\n")
    assert results(state)["a1"].text == "3"


def test_middleware_of_the_name_of_ours_takes_its_place_and_others_are_added(scripted: Scripted) -> None:
    seen: list[str] = []

    class Mine(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            seen.append("mine")

    model = watched(scripted())
    create_deep_agent(model, middleware=[TodoListMiddleware(system_prompt="PLAN"), Mine()]).invoke(GO)
    assert seen == ["mine"]
    assert "PLAN" in model.asked[0].text
    assert "write_todos once" not in model.asked[0].text


def test_what_stands_around_stands_around_subagents_too(scripted: Scripted) -> None:
    seen: list[int] = []

    class Around(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append(len(request.messages))
            return handler(request)

    subagent: Any = {"name": "x", "description": "y", "system_prompt": "z", "model": answering("found")}
    state = create_deep_agent(scripted([task("x")]), subagents=[subagent], around=[Around()]).invoke(GO)
    assert results(state)["a1"].text == "found"
    assert seen == [1, 1, 3]


def test_subagents_share_the_files(scripted: Scripted) -> None:
    inner = scripted([("read_file", {"file_path": "/f"}), ("write_file", {"file_path": "/g", "content": "of the subagent"})])
    subagent: Any = {"name": "x", "description": "y", "prompt": "z", "model": inner}
    model = scripted(
        [("write_file", {"file_path": "/f", "content": "of the agent"})], [task("x")], [("read_file", {"file_path": "/g"})]
    )
    state = create_deep_agent(model, subagents=[subagent]).invoke(GO)
    assert results(state)["c1"].text == "     1\tof the subagent"


def test_permissions_hold_in_subagents_unless_they_have_their_own(scripted: Scripted) -> None:
    def report(**own: Any) -> str:
        inner = scripted([("read_file", {"file_path": "/closed"})])
        seen = watched(inner)
        subagent: Any = {"name": "x", "description": "y", "system_prompt": "z", "model": seen, **own}
        backend = StateBackend()
        backend.upload_files([("/closed", b"inside")])
        rules = [FilesystemPermission(["read"], ["/closed"], "deny")]
        create_deep_agent(scripted([task("x")]), backend=backend, permissions=rules, subagents=[subagent]).invoke(GO)
        return next(str(message.text) for message in seen.asked if isinstance(message, ToolMessage))

    assert "a permission denies it" in report()
    assert "inside" in report(permissions=[])


def test_a_human_is_asked_in_the_agent_and_in_its_subagents(scripted: Scripted) -> None:
    inner = scripted([("write_file", {"file_path": "/f", "content": "x"})])
    subagent: Any = {"name": "x", "description": "y", "system_prompt": "z", "model": inner}
    agent = create_deep_agent(
        scripted([task("x")]), subagents=[subagent], interrupt_on={"write_file": True}, checkpointer=InMemorySaver()
    )
    paused = agent.invoke(GO, THREAD)
    [pause] = paused["__interrupt__"]
    assert pause.value["action_requests"][0]["name"] == "write_file"
    state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert state["files"]["/f"]["content"] == "x"


def test_a_gate_before_a_tool_that_does_not_exist_is_refused(scripted: Scripted) -> None:
    with pytest.raises(ValueError, match="no tool is called wirte_file"):
        create_deep_agent(scripted(), interrupt_on={"wirte_file": True}, checkpointer=InMemorySaver())


def test_memory_and_skills_are_in_the_prompt(scripted: Scripted) -> None:
    backend = StateBackend()
    skill = b"---\nname: bake\ndescription: Bakes bread.\n---\nKnead.\n"
    backend.upload_files([("/AGENTS.md", b"Tabs, not spaces."), ("/skills/bake/SKILL.md", skill)])
    model = watched(scripted())
    create_deep_agent(model, backend=backend, memory=["/AGENTS.md"], skills=["/skills/"]).invoke(GO)
    told = model.asked[0].text
    assert "Tabs, not spaces." in told
    assert "Bakes bread." in told
    assert "Knead." not in told


def test_an_answer_can_have_a_shape(scripted: Scripted) -> None:
    class Verdict(BaseModel):
        good: bool

    state = create_deep_agent(scripted([("Verdict", {"good": True})]), response_format=Verdict).invoke(GO)
    assert state["structured_response"] == Verdict(good=True)


def test_a_factory_serves_every_part_and_is_warned_about_once(scripted: Scripted) -> None:
    skill = "---\nname: bake\ndescription: Bakes bread.\n---\n"
    first = [("write_file", {"file_path": "/AGENTS.md", "content": "Tabs."})]
    model = watched(scripted([*first, ("write_file", {"file_path": "/skills/bake/SKILL.md", "content": skill})]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent = create_deep_agent(
            model, backend=lambda rt: StateBackend(rt), memory=["/AGENTS.md"], skills=["/skills/"], checkpointer=InMemorySaver()
        )
        files = agent.invoke(GO, THREAD)["files"]
    assert set(files) == {"/AGENTS.md", "/skills/bake/SKILL.md"}
    [warning] = [one for one in caught if "a backend factory is deprecated" in str(one.message)]
    assert warning.filename == __file__


def test_files_in_a_store_outlive_their_thread(scripted: Scripted) -> None:
    store = InMemoryStore()
    backend = CompositeBackend(
        default=StateBackend(), routes={"/memories/": StoreBackend(namespace=lambda runtime: ("me", "files"))}
    )

    def run(thread: str, *calls: tuple[str, dict[str, Any]]) -> dict[str, ToolMessage]:
        agent = create_deep_agent(scripted(list(calls)), backend=backend, store=store, checkpointer=InMemorySaver())
        return results(agent.invoke(GO, {"configurable": {"thread_id": thread}}))

    write = {"content": "kept"}
    run("1", ("write_file", {"file_path": "/memories/a", **write}), ("write_file", {"file_path": "/b", **write}))
    found = run("2", ("read_file", {"file_path": "/memories/a"}), ("read_file", {"file_path": "/b"}))
    assert found["a1"].text == "     1\tkept"
    assert found["a2"].status == "error"


def test_context_reaches_the_backends(scripted: Scripted) -> None:
    class User(BaseModel):
        user_id: str

    store = InMemoryStore()
    backend = StoreBackend(namespace=lambda runtime: (runtime.context.user_id,))
    agent = create_deep_agent(
        scripted([("write_file", {"file_path": "/a", "content": "x"})]), backend=backend, store=store, context_schema=User
    )
    asyncio.run(agent.ainvoke(GO, context=User(user_id="ann")))
    assert [item.key for item in store.search(("ann",))] == ["/a"]


def test_calls_that_were_cut_off_are_mended(scripted: Scripted) -> None:
    call: Any = {"name": "ls", "args": {}, "id": "lost", "type": "tool_call"}
    cut = [HumanMessage("go"), AIMessage("", tool_calls=[call]), HumanMessage("still there?")]
    state = create_deep_agent(answering("yes")).invoke({"messages": cut})  # type: ignore[arg-type]
    assert results(state)["lost"].status == "error"


def test_its_name_is_the_answers_name(scripted: Scripted) -> None:
    assert create_deep_agent(scripted(), name="deep").invoke(GO)["messages"][-1].name == "deep"


def test_the_model_that_is_used_by_default_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(BadInput, match=r"claude-sonnet-4.*its key is missing: set ANTHROPIC_API_KEY"):
        create_deep_agent()


def test_with_a_key_the_agent_is_made_by_the_models_name(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langchain_anthropic")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-none")
    assert "tools" in create_deep_agent("claude-sonnet-4-20250514").get_graph().nodes


def test_a_tool_that_only_a_subagent_has_can_be_gated(scripted: Scripted) -> None:
    @tool
    def launch() -> str:
        """Launches."""
        return "launched"

    subagent: Any = {"name": "x", "description": "y", "system_prompt": "z", "tools": [launch]}
    gated: Any = {"launch": True}
    create_deep_agent(scripted(), subagents=[subagent], interrupt_on=gated, checkpointer=InMemorySaver())
