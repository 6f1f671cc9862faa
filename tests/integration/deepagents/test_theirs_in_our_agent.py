"""An agent of ours with backends of the deepagents package, its own and a third party's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deepagents import backends as theirs
from langgraph.store.memory import InMemoryStore

from orchestrator.agent.harness import create_deep_agent
from sandboxes.backends import FilesystemBackend
from sandboxes.sandbox import Sandbox

from .boxes import Box
from .conftest import Call, Play, player


def store() -> theirs.StoreBackend:
    return theirs.StoreBackend(store=InMemoryStore(), namespace=lambda runtime: ("files",))


BACKENDS: dict[str, Callable[[Path], Any]] = {
    "state": lambda folder: theirs.StateBackend(),
    "store": lambda folder: store(),
    "filesystem": lambda folder: theirs.FilesystemBackend(folder, virtual_mode=True),
    "shell": lambda folder: theirs.LocalShellBackend(folder, virtual_mode=True),
    "composite": lambda folder: theirs.CompositeBackend(theirs.StateBackend(), {"/memories/": store()}),
}


def session(root: str) -> list[Call]:
    path = f"{root}/x/notes.txt"
    return [
        ("write_file", {"file_path": path, "content": "one\ntwo\nthree\n"}),
        ("write_file", {"file_path": path, "content": "other"}),
        ("edit_file", {"file_path": path, "old_string": "two", "new_string": "deux"}),
        ("edit_file", {"file_path": path, "old_string": "two", "new_string": "deux"}),
        ("read_file", {"file_path": path}),
        ("read_file", {"file_path": path, "offset": 1, "limit": 1}),
        ("read_file", {"file_path": path, "offset": 7}),
        ("read_file", {"file_path": f"{root}/x"}),
        ("read_file", {"file_path": f"{root}/x/missing.txt"}),
        ("ls", {"path": f"{root}/nowhere"}),
        ("ls", {"path": path}),
        ("glob", {"pattern": "**/*.txt", "path": root or "/"}),
        ("glob", {"pattern": "*", "path": f"{root}/nowhere"}),
        ("grep", {"pattern": "deux", "path": root or "/", "output_mode": "content"}),
        ("grep", {"pattern": "deux", "path": f"{root}/nowhere"}),
        ("write_file", {"file_path": f"{path}/under/it.txt", "content": "x"}),
        ("delete", {"file_path": f"{root}/x"}),
        ("delete", {"file_path": f"{root}/x"}),
    ]


@pytest.mark.parametrize("name", BACKENDS)
async def test_our_file_tools_say_the_same_of_theirs_as_of_ours(name: str, ours: Play, tmp_path: Path) -> None:
    expected = await ours(FilesystemBackend(tmp_path / "ours", virtual_mode=True), *session(""))
    told = await ours(BACKENDS[name](tmp_path), *session(""))
    assert [(message.status, message.text) for message in told] == [(message.status, message.text) for message in expected]
    assert "three" in told[4].text


async def test_our_file_tools_say_the_same_of_their_sandbox_as_of_ours(ours: Play, sandbox: Sandbox) -> None:
    expected = await player(create_deep_agent, "sync")(sandbox, *session(sandbox.workdir))
    told = await ours(Box(sandbox), *session(sandbox.workdir))
    assert [(message.status, message.text) for message in told] == [(message.status, message.text) for message in expected]


async def test_relative_paths_begin_where_the_commands_of_their_sandbox_do(ours: Play, local: Sandbox) -> None:
    told = await ours(
        Box(local),
        ("write_file", {"file_path": "notes.txt", "content": "hello"}),
        ("execute", {"command": "cat notes.txt; exit 3"}),
        ("glob", {"pattern": "*.txt"}),
    )
    assert told[1].text == "hello\n[Command failed with exit code 3]"
    assert told[2].text == f"{local.workdir}/notes.txt"
