"""Permissions at the file tools: what is refused, what is left out, and what a human is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from orchestrator.agent.harness.filesystem import FilesystemMiddleware
from orchestrator.agent.harness.permissions import FilesystemPermission
from orchestrator.agent.scripted import ScriptedChatModel
from orchestrator.errors import BadInput
from sandboxes.backends import FilesystemBackend, StateBackend

Scripted = Callable[..., ScriptedChatModel]
GO: Any = {"messages": [HumanMessage("go")]}
THREAD: Any = {"configurable": {"thread_id": "t"}}


def rule(mode: Any, *paths: str, operations: Any = ("read", "write")) -> FilesystemPermission:
    return FilesystemPermission(operations=operations, paths=paths, mode=mode)


def filled() -> StateBackend:
    backend = StateBackend()
    files = ("/open/a.txt", "/open/secret.env", "/closed/key", "/closed/deep/key")
    backend.upload_files([(path, f"key of {path}\n".encode()) for path in files])
    return backend


def results(state: Any) -> dict[str, ToolMessage]:
    return {message.tool_call_id: message for message in state["messages"] if isinstance(message, ToolMessage)}


def run_with(model: Any, *rules: FilesystemPermission, **options: Any) -> dict[str, ToolMessage]:
    middleware = FilesystemMiddleware(backend=options.pop("backend", None) or filled(), permissions=rules)
    return results(create_agent(model, middleware=[middleware], **options).invoke(GO))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("read_file", {"file_path": "/closed/key"}),
        ("read_file", {"file_path": "closed/key"}),
        ("read_file", {"file_path": "/open/.//../closed/key"}),
        ("read_file", {"file_path": "//closed/./key"}),
        ("read_file", {"file_path": "/closed/key", "byte_offset": 0}),
        ("ls", {"path": "/closed"}),
        ("ls", {"path": "/closed/deep/"}),
        ("grep", {"pattern": "key", "path": "/closed"}),
        ("glob", {"pattern": "*", "path": "closed"}),
        ("write_file", {"file_path": "/closed/new", "content": "x"}),
        ("edit_file", {"file_path": "/closed/key", "old_string": "key", "new_string": "x"}),
        ("delete", {"file_path": "/closed/key"}),
        ("delete", {"file_path": "/closed"}),
    ],
)
def test_what_is_denied_is_refused_by_every_tool(scripted: Scripted, name: str, args: dict[str, Any]) -> None:
    message = run_with(scripted([(name, args)]), rule("deny", "/closed/**"))["a1"]
    assert message.status == "error"
    assert "a permission denies it" in message.text or "must not contain '..'" in message.text


def test_what_must_not_be_read_is_in_no_list_and_found_by_no_search(scripted: Scripted) -> None:
    found = run_with(
        scripted(
            [
                ("ls", {"path": "/"}),
                ("ls", {"path": "/open"}),
                ("glob", {"pattern": "**"}),
                ("grep", {"pattern": "key", "output_mode": "content", "context": 1}),
            ]
        ),
        rule("deny", "/closed", "/**/*.env"),
    )
    assert "/open/" in found["a1"].text
    assert "a.txt" in found["a2"].text
    assert found["a3"].text == "/open/a.txt"
    assert found["a4"].text == "/open/a.txt:1:key of /open/a.txt"
    assert all("closed" not in one.text and "env" not in one.text for one in found.values())


def test_who_must_not_write_may_read(scripted: Scripted) -> None:
    found = run_with(
        scripted([("read_file", {"file_path": "/closed/key"}), ("delete", {"file_path": "/closed/deep/key"})]),
        rule("deny", "/closed", operations=["write"]),
    )
    assert "key of /closed/key" in found["a1"].text
    assert found["a2"].text == "Error: '/closed/deep/key' must not be changed: a permission denies it"


def test_who_must_not_read_must_not_try_out_by_editing_what_is_there(scripted: Scripted) -> None:
    edit = {"file_path": "/closed/key", "old_string": "guess", "new_string": "x"}
    message = run_with(scripted([("edit_file", edit)]), rule("deny", "/closed", operations=["read"]))["a1"]
    assert message.text == "Error: '/closed/key' must not be read: a permission denies it"


def test_a_folder_that_holds_something_protected_is_not_deleted_as_a_whole(scripted: Scripted) -> None:
    rules = (rule("deny", "/**/*.env", operations=["write"]),)
    model = scripted([("delete", {"file_path": "/open"}), ("delete", {"file_path": "/open/a.txt"})])
    found = run_with(model, *rules)
    assert "a permission protects what is, or may be, in it" in found["a1"].text
    assert found["a2"].text == "Deleted /open/a.txt"


def test_a_backend_whose_relative_paths_begin_elsewhere_is_guarded_there(scripted: Scripted, folder: Any) -> None:
    (folder / "secret").write_text("hidden")
    (folder / "open").write_text("shown")
    backend = FilesystemBackend(root_dir=folder)
    model = scripted([("read_file", {"file_path": "secret"}), ("read_file", {"file_path": "open"})])
    found = run_with(model, rule("deny", f"{folder}/secret"), backend=backend)
    assert "a permission denies it" in found["a1"].text
    assert "shown" in found["a2"].text


# -- interrupt


ASK = rule("interrupt", "/closed", operations=["write"])
EDIT = {"file_path": "/closed/key", "old_string": "key of", "new_string": "lock"}


def paused(scripted: Scripted, *calls: tuple[str, dict[str, Any]], rules: Any = (ASK,)) -> tuple[Any, StateBackend]:
    backend = filled()
    middleware = FilesystemMiddleware(backend=backend, permissions=rules)
    agent = create_agent(scripted(list(calls)), middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke(GO, THREAD)
    return agent, backend


def asked(agent: Any) -> list[Any]:
    return [pause.value for pause in agent.get_state(THREAD).interrupts]


def answer(agent: Any, *decisions: Any) -> dict[str, ToolMessage]:
    return results(agent.invoke(Command(resume={"decisions": list(decisions)}), THREAD))


def test_a_human_is_asked_in_the_form_of_langchains_human_in_the_loop(scripted: Scripted) -> None:
    agent, _ = paused(scripted, ("edit_file", EDIT))
    [request] = asked(agent)
    [action] = request["action_requests"]
    assert (action["name"], action["args"]) == ("edit_file", EDIT)
    assert action["description"] == "edit_file wants to change /closed/key: may it?"
    [config] = request["review_configs"]
    assert config == {"action_name": "edit_file", "allowed_decisions": ["approve", "edit", "reject", "respond"]}


def test_an_approved_call_is_made(scripted: Scripted) -> None:
    agent, _ = paused(scripted, ("edit_file", EDIT))
    assert answer(agent, {"type": "approve"})["a1"].text == "Replaced 1 occurrence in /closed/key"


def test_a_rejected_call_is_not_made_and_the_reason_told(scripted: Scripted) -> None:
    agent, _ = paused(scripted, ("edit_file", EDIT))
    message = answer(agent, {"type": "reject", "message": "not today"})["a1"]
    assert (message.status, message.text) == ("error", "Error: a human did not allow this: not today. Do not try it again")


def test_a_human_may_answer_in_place_of_the_tool(scripted: Scripted) -> None:
    agent, _ = paused(scripted, ("edit_file", EDIT))
    message = answer(agent, {"type": "respond", "message": "I did it by hand"})["a1"]
    assert (message.status, message.text) == ("success", "I did it by hand")


def test_an_edited_call_is_made_as_it_was_edited_unless_that_is_denied(scripted: Scripted) -> None:
    def edited(path: str) -> str:
        agent, _ = paused(scripted, ("edit_file", EDIT), rules=(rule("deny", "/closed/deep"), ASK))
        action = {"name": "edit_file", "args": {**EDIT, "file_path": path}}
        return str(answer(agent, {"type": "edit", "edited_action": action})["a1"].text)

    assert edited("/open/a.txt") == "Replaced 1 occurrence in /open/a.txt"
    assert edited("/closed/key") == "Replaced 1 occurrence in /closed/key"
    assert "a permission denies it" in edited("/closed/deep/key")


OTHER_TOOL = {"type": "edit", "edited_action": {"name": "delete", "args": {}}}


@pytest.mark.parametrize("given", [OTHER_TOOL, {"type": "?"}, {"type": "respond"}, "yes", None])
def test_after_an_answer_that_is_no_decision_a_human_is_asked_again(scripted: Scripted, given: Any) -> None:
    agent, _ = paused(scripted, ("edit_file", EDIT))
    assert "a1" not in answer(agent, given)
    [request] = asked(agent)
    assert "the last answer does not fit" in request["problem"]
    assert answer(agent, {"type": "approve"})["a1"].text == "Replaced 1 occurrence in /closed/key"


def test_a_call_that_is_resumed_does_not_repeat_those_beside_it(scripted: Scripted) -> None:
    counted: list[str] = []

    class Counting(StateBackend):
        def write(self, file_path: str, content: str) -> Any:
            counted.append(file_path)
            return super().write(file_path, content)

    calls = [("write_file", {"file_path": path, "content": "x"}) for path in ("/open/new", "/closed/new")]
    middleware = FilesystemMiddleware(backend=Counting(), permissions=[ASK])
    agent = create_agent(scripted(calls), middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke(GO, THREAD)
    answer(agent, {"type": "approve"})
    assert counted == ["/open/new", "/closed/new"]


def test_without_a_checkpointer_there_is_nobody_to_ask(scripted: Scripted) -> None:
    with pytest.raises(BadInput, match="give the agent a checkpointer"):
        run_with(scripted(), ASK)


def test_what_a_human_would_have_to_allow_is_not_found_by_a_search_around_it(scripted: Scripted) -> None:
    gate = rule("interrupt", "/closed", operations=["read"])
    agent, _ = paused(scripted, ("grep", {"pattern": "key of"}), rules=(gate,))
    assert asked(agent) == []
    assert "/closed" not in results(agent.get_state(THREAD).values)["a1"].text
    agent, _ = paused(scripted, ("grep", {"pattern": "key of", "path": "/closed"}), rules=(gate,))
    assert answer(agent, {"type": "approve"})["a1"].text == "/closed/deep/key\n/closed/key"
