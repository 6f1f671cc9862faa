"""What the seeds say of `create_deep_agent`: its arguments, its tools, and an agent on each backend that they begin with."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel

from orchestrator.agent.harness import FilesystemPermission, create_deep_agent
from orchestrator.agent.harness.deep import DEFAULT_MODEL
from orchestrator.agent.scripted import ScriptedChatModel
from sandboxes import protocol as p
from sandboxes.backends import CompositeBackend, FilesystemBackend, LocalShellBackend, StateBackend, StoreBackend
from sandboxes.backends.legacy import BackendProtocolV1

Scripted = Callable[..., ScriptedChatModel]
GO: Any = {"messages": [HumanMessage("go")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
PLAN = {"file_path": "/memories/plan.md", "content": "one step"}
WRITES_AND_READS = ([("write_file", PLAN)], [("read_file", {"file_path": "/memories/plan.md"})])
FILES = {"ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep"}


def results(state: Any) -> dict[str, ToolMessage]:
    return {message.tool_call_id: message for message in state["messages"] if isinstance(message, ToolMessage)}


class Offered(AgentMiddleware[Any, Any, Any]):
    """Sees the tools and the prompt that the model is given."""

    def __init__(self) -> None:
        self.tools: Any = []
        self.names: set[str] = set()
        self.prompt = ""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.names = {tool.name for tool in request.tools}
        self.prompt = request.system_message.text if request.system_message else ""
        return handler(request)


def test_the_arguments_are_those_of_the_seeds_and_each_has_its_default() -> None:
    parameters = inspect.signature(create_deep_agent).parameters
    defaults = {
        "model": None, "tools": None, "system_prompt": None, "middleware": (), "subagents": None, "response_format": None,
        "context_schema": None, "checkpointer": None, "store": None, "backend": None, "interrupt_on": None, "debug": False,
        "name": None, "cache": None,
    }  # fmt: skip
    assert {name: parameters[name].default for name in defaults} == defaults
    assert [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD] == ["model", "tools"]


def test_the_default_model_is_claude_sonnet_4() -> None:
    assert DEFAULT_MODEL.startswith("anthropic:claude-sonnet-4")


def test_an_agent_has_todos_files_and_subagents_and_execute_with_a_sandbox(scripted: Scripted, backend: Any) -> None:
    for given, more in ((None, set()), (backend, {"execute"})):
        offered = Offered()
        create_deep_agent(scripted(), backend=given, middleware=[offered]).invoke(GO)
        assert offered.names == FILES | {"write_todos", "task"} | more


def test_instructions_are_part_of_the_system_prompt(scripted: Scripted) -> None:
    offered = Offered()
    create_deep_agent(scripted(), system_prompt="You are a gardener.", middleware=[offered]).invoke(GO)
    assert "You are a gardener." in offered.prompt
    assert len(offered.prompt) > len("You are a gardener.")


@pytest.fixture
def backends(tmp_path: Path) -> dict[str, Any]:
    """The backends that the seeds begin with, and the older factories of them."""
    store = StoreBackend(namespace=("me", "filesystem"))
    disk = FilesystemBackend(tmp_path, virtual_mode=True)
    return {
        "default": None,
        "state": StateBackend(),
        "disk": disk,
        "store": store,
        "shell": LocalShellBackend(tmp_path, virtual_mode=True, env={"PATH": "/usr/bin:/bin"}),
        "composite": CompositeBackend(default=StateBackend(), routes={"/memories/": store}),
        "composite with a disk": CompositeBackend(default=StateBackend(), routes={"/memories/": disk}),
        "state by a factory": lambda rt: StateBackend(rt),
        "store by a factory": lambda rt: StoreBackend(rt, namespace=("me",)),
        "composite by a factory": lambda rt: CompositeBackend(
            StateBackend(rt), {"/memories/": StoreBackend(rt, namespace=("m",))}
        ),
    }


@pytest.mark.filterwarnings("ignore:.*(factory|no longer takes a runtime):DeprecationWarning")
@pytest.mark.parametrize("name", [
    "default", "state", "disk", "store", "shell", "composite", "composite with a disk",
    "state by a factory", "store by a factory", "composite by a factory",
])  # fmt: skip
def test_an_agent_works_on_each_backend_of_the_seeds(scripted: Scripted, backends: dict[str, Any], name: str) -> None:
    agent = create_deep_agent(scripted(*WRITES_AND_READS), backend=backends[name], store=InMemoryStore())
    found = results(agent.invoke(GO))
    assert found["a1"].status == "success", found["a1"].text
    assert found["b1"].text == "     1\tone step"


def test_a_factory_still_works_with_a_deprecation_warning(scripted: Scripted) -> None:
    with pytest.warns(DeprecationWarning, match="factory is deprecated"):
        create_deep_agent(scripted(*WRITES_AND_READS), backend=lambda rt: StateBackend()).invoke(GO)


def test_routed_files_are_on_the_disk_and_the_others_in_the_state(scripted: Scripted, tmp_path: Path) -> None:
    routes = {"/memories/": FilesystemBackend(root_dir=tmp_path / "myagent", virtual_mode=True)}
    agent = create_deep_agent(
        scripted(
            [("write_file", {"file_path": "/workspace/plan.md", "content": "a"}),
             ("write_file", {"file_path": "/memories/agent.md", "content": "b"})],
            [("glob", {"pattern": "*.md"}), ("ls", {"path": "/"})],
        ),
        backend=CompositeBackend(default=StateBackend(), routes=routes),
    )  # fmt: skip
    state = agent.invoke(GO)
    assert list(state["files"]) == ["/workspace/plan.md"]
    assert (tmp_path / "myagent" / "agent.md").read_text() == "b"
    assert results(state)["b1"].text.split() == ["/memories/agent.md", "/workspace/plan.md"]
    assert {"/memories/", "/workspace/"} <= set(results(state)["b2"].text.split())


class FirstVersion(BackendProtocolV1):
    """As somebody wrote it for the first version."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def ls_info(self, path: str) -> list[p.FileInfo]:
        return [{"path": file} for file in self.files]

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> str:
        if file_path not in self.files:
            return f"Error: File '{file_path}' not found"
        return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(self.files[file_path].split("\n"), 1))

    def grep_raw(self, pattern: str, path: str | None = None, glob: str | None = None) -> list[p.GrepMatch] | str:
        return "Invalid regex pattern: unbalanced"

    def glob_info(self, pattern: str, path: str = "/") -> list[p.FileInfo]:
        return self.ls_info(path)

    def write(self, file_path: str, content: str) -> p.WriteResult:
        self.files[file_path] = content
        return p.WriteResult(path=file_path, files_update=None)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        return p.EditResult(error="edits are not for me")


def test_a_backend_of_the_first_version_needs_no_change(scripted: Scripted) -> None:
    calls = [("grep", {"pattern": "("}), ("read_file", {"file_path": "/x"})]
    found = results(create_deep_agent(scripted(*WRITES_AND_READS, calls), backend=FirstVersion()).invoke(GO))
    assert found["b1"].text == "     1\tone step"
    assert "Invalid regex pattern" in found["c1"].text
    assert found["c2"].text == "Error: File '/x' not found"


def test_what_is_no_backend_is_refused(scripted: Scripted) -> None:
    with pytest.raises(TypeError, match="not a backend"):
        create_deep_agent(scripted(), backend=3)


def test_todos_have_a_status_and_stay_in_the_state_of_the_thread(scripted: Scripted) -> None:
    todos = [{"content": name, "status": name} for name in ("pending", "in_progress", "completed")]
    agent = create_deep_agent(scripted([("write_todos", {"todos": todos})]), checkpointer=InMemorySaver())
    agent.invoke(GO, THREAD)
    assert agent.get_state(THREAD).values["todos"] == todos


def test_an_edit_waits_for_a_human_when_the_seeds_example_says_so(scripted: Scripted) -> None:
    edit = {"file_path": "/memories/plan.md", "old_string": "one", "new_string": "two"}
    model = scripted([("write_file", PLAN)], [("edit_file", edit)])
    agent = create_deep_agent(model, interrupt_on={"edit_file": True}, checkpointer=InMemorySaver())
    waiting = agent.invoke(GO, THREAD)
    assert waiting["__interrupt__"][0].value["action_requests"][0]["name"] == "edit_file"
    assert waiting["files"]["/memories/plan.md"]["content"] == "one step"
    changed = {"type": "edit", "edited_action": {"name": "edit_file", "args": {**edit, "new_string": "three"}}}
    done = agent.invoke(Command(resume={"decisions": [changed]}), THREAD)
    assert done["files"]["/memories/plan.md"]["content"] == "three step"


def test_permissions_are_judged_before_the_backend_is_called(scripted: Scripted) -> None:
    class Untouched(StateBackend):
        def write(self, file_path: str, content: str) -> p.WriteResult:
            raise AssertionError("the backend was called")

    denied = [FilesystemPermission(["write"], ["/memories/**"], "deny")]
    agent = create_deep_agent(scripted([("write_file", PLAN)]), backend=Untouched(), permissions=denied)
    message = results(agent.invoke(GO))["a1"]
    assert message.status == "error"
    assert "a permission denies it" in message.text


def test_an_image_and_a_document_are_given_to_the_model_as_such(scripted: Scripted) -> None:
    files = {"/a.png": b"\x89PNG\r\n", "/b.pdf": b"%PDF-1.7\n"}
    backend = StoreBackend(store=InMemoryStore(), namespace=("media",))
    backend.upload_files(list(files.items()))
    agent = create_deep_agent(scripted([("read_file", {"file_path": path}) for path in files]), backend=backend)
    found = results(agent.invoke(GO))
    for call, path, kind, mime in (("a1", "/a.png", "image", "image/png"), ("a2", "/b.pdf", "file", "application/pdf")):
        [block] = [one for one in found[call].content if isinstance(one, dict) and one["type"] == kind]
        assert block["mime_type"] == mime
        assert base64.b64decode(block["base64"]) == files[path]


class Context(BaseModel):
    user: str


def test_name_context_debug_and_cache_are_handed_to_langchain(scripted: Scripted) -> None:
    cache: InMemoryCache[Any] = InMemoryCache()
    agent = create_deep_agent(scripted(), name="gardener", context_schema=Context, debug=True, cache=cache)
    assert isinstance(agent, CompiledStateGraph)
    assert (agent.name, agent.context_schema, agent.debug, agent.cache) == ("gardener", Context, True, cache)


@pytest.mark.filterwarnings("ignore:.*(factory|no longer takes a state):DeprecationWarning")
def test_a_factory_over_a_runtime_may_use_its_state(scripted: Scripted) -> None:
    def factory(runtime: Any) -> Any:
        return StateBackend(runtime.state)

    state = create_deep_agent(scripted(*WRITES_AND_READS), backend=factory).invoke(GO)
    assert results(state)["b1"].text == "     1\tone step"
    assert state["files"]["/memories/plan.md"]["content"] == ["one step"]


@pytest.mark.filterwarnings("ignore:.*factory is deprecated:DeprecationWarning")
def test_a_factory_is_not_called_before_the_agent_runs(scripted: Scripted) -> None:
    asked: list[Any] = []

    def factory(runtime: Any) -> Any:
        asked.append(runtime)
        return StateBackend()

    agent = create_deep_agent(scripted(*WRITES_AND_READS), backend=factory)
    assert asked == []
    agent.invoke(GO)
    assert asked != []


class Answer(BaseModel):
    """What is asked for."""

    plan: str


def test_an_agent_answers_in_the_format_that_was_asked_for(scripted: Scripted) -> None:
    model = scripted([("Answer", {"plan": "one step"})])
    state = create_deep_agent(model, response_format=ToolStrategy(Answer)).invoke(GO)
    assert state["structured_response"] == Answer(plan="one step")
