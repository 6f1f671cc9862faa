"""Calls of one answer that change the same place: none undoes another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from orchestrator.agent import create_deep_agent
from orchestrator.agent.scripted import ScriptedChatModel
from sandboxes.backends import FilesystemBackend, StateBackend
from sandboxes.protocol import BackendProtocol

Scripted = Callable[..., ScriptedChatModel]
GO = {"messages": [("user", "go")]}


@pytest.fixture(params=["state", "disk", "factory"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    kept: BackendProtocol = StateBackend() if request.param == "state" else FilesystemBackend(tmp_path, virtual_mode=True)
    for path in ("/a.txt", "/sub/b.txt"):
        assert kept.write(path, "one two three\n").error is None
    return (lambda _: kept) if request.param == "factory" else kept


def edit(path: str, old: str) -> tuple[str, dict[str, Any]]:
    return "edit_file", {"file_path": path, "old_string": old, "new_string": old.upper()}


async def played(backend: Any, model: ScriptedChatModel, form: str) -> dict[str, ToolMessage]:
    agent = create_deep_agent(model, backend=backend)
    state = agent.invoke(GO) if form == "sync" else await agent.ainvoke(GO)
    return {message.tool_call_id: message for message in state["messages"] if isinstance(message, ToolMessage)}


pytestmark = [
    pytest.mark.parametrize("form", ["sync", "async"]),
    pytest.mark.filterwarnings("ignore:.*factory.*:DeprecationWarning"),
]


async def test_the_first_of_two_edits_of_a_file_is_made_and_the_second_is_told_to_wait(
    backend: Any, scripted: Scripted, form: str
) -> None:
    again = [edit("a.txt", "two")]
    read = [("read_file", {"file_path": "/a.txt"})]
    results = await played(backend, scripted([edit("/a.txt", "one"), edit("/./a.txt", "two")], again, read), form)
    assert [results[name].status for name in ("a1", "a2", "b1")] == ["success", "error", "success"]
    assert results["a2"].text == (
        "Error: another call of the same answer changes '/a.txt': wait for its result, then call edit_file"
    )
    assert "ONE TWO three" in results["c1"].text


async def test_a_file_is_not_changed_beside_the_deletion_of_its_folder(backend: Any, scripted: Scripted, form: str) -> None:
    calls = [("delete", {"file_path": "/sub"}), ("write_file", {"file_path": "/sub/new.txt", "content": "x"})]
    results = await played(backend, scripted(calls), form)
    assert [results[name].status for name in ("a1", "a2")] == ["success", "error"]


async def test_other_files_are_changed_and_the_same_one_read_at_the_same_time(
    backend: Any, scripted: Scripted, form: str
) -> None:
    calls = [edit("/a.txt", "one"), edit("/sub/b.txt", "one"), ("read_file", {"file_path": "/a.txt"})]
    results = await played(backend, scripted(calls), form)
    assert [results[name].status for name in ("a1", "a2", "a3")] == ["success"] * 3
