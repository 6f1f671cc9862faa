"""An agent of the deepagents package with each of our backends: what its tools do, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deepagents import FilesystemPermission, create_deep_agent
from langgraph.store.memory import InMemoryStore

from sandboxes.backends import (
    CompositeBackend,
    FilesystemBackend,
    LocalShellBackend,
    PolicyBackend,
    StateBackend,
    StoreBackend,
)
from sandboxes.backends.deepagents import for_deepagents
from sandboxes.protocol import BackendProtocol
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.local import LocalProvider
from sandboxes.sandbox import Sandbox

from .conftest import Call, Play, player


def store() -> StoreBackend:
    return StoreBackend(store=InMemoryStore(), namespace=lambda runtime: ("files",))


def disk(folder: Path) -> FilesystemBackend:
    return FilesystemBackend(folder, virtual_mode=True)


BACKENDS: dict[str, Callable[[Path], BackendProtocol]] = {
    "state": lambda folder: StateBackend(),
    "store": lambda folder: store(),
    "filesystem": disk,
    "shell": lambda folder: LocalShellBackend(folder, virtual_mode=True),
    "composite": lambda folder: CompositeBackend(StateBackend(), {"/memories/": store()}),
    "composite of files": lambda folder: CompositeBackend(disk(folder), {"/state": StateBackend()}),
    "policy": lambda folder: PolicyBackend(StateBackend(), deny=["/secrets"]),
    "policies": lambda folder: PolicyBackend(PolicyBackend(store(), read_only=["/docs"]), deny=["/secrets"]),
}


def session(root: str) -> list[Call]:
    """Each file tool once, and what a model gets wrong."""
    path = f"{root}/x/notes.txt"
    return [
        ("write_file", {"file_path": path, "content": "one\ntwo\nthree\n"}),
        ("write_file", {"file_path": path, "content": "other"}),
        ("edit_file", {"file_path": path, "old_string": "two", "new_string": "deux"}),
        ("edit_file", {"file_path": path, "old_string": "two", "new_string": "deux"}),
        ("read_file", {"file_path": path}),
        ("read_file", {"file_path": path, "offset": 1, "limit": 1}),
        ("read_file", {"file_path": path, "offset": 7}),
        ("read_file", {"file_path": f"{root}/x/missing.txt"}),
        ("ls", {"path": f"{root}/x"}),
        ("ls", {"path": f"{root}/nowhere"}),
        ("glob", {"pattern": "**/*.txt", "path": root or "/"}),
        ("grep", {"pattern": "deux", "path": root or "/", "output_mode": "content"}),
        ("delete", {"file_path": f"{root}/x"}),
        ("delete", {"file_path": f"{root}/x"}),
    ]


def transcript(root: str) -> list[tuple[str, str]]:
    """What a session comes to, in every backend."""
    path = f"{root}/x/notes.txt"
    return [
        ("success", f"Updated file {path}"),
        ("error", f"Error: '{path}' already exists: read it and edit it, or write to another path"),
        ("success", f"Successfully replaced 1 instance(s) of the string in '{path}'"),
        ("error", f"Error: old_string was not found in '{path}'"),
        ("success", "@@ lines 1-3 of 3 @@\none\ndeux\nthree"),
        ("success", "@@ lines 2-2 of 3 | next offset 2 @@\ndeux"),
        ("error", f"Error: line offset 7 is past the end of '{path}', which has 3 lines"),
        ("error", f"Error: File '{root}/x/missing.txt' not found"),
        ("success", f"['{path}']"),
        ("error", f"Error: Directory '{root}/nowhere' not found"),
        ("success", f"['{path}']"),
        ("success", f"{path}:\n  2: deux"),
        ("success", f"Deleted {root}/x"),
        ("error", f"Error: File '{root}/x' not found"),
    ]


@pytest.mark.parametrize("name", BACKENDS)
async def test_their_file_tools_work_on_ours(name: str, theirs: Play, tmp_path: Path) -> None:
    told = await theirs(for_deepagents(BACKENDS[name](tmp_path)), *session(""))
    assert [(message.status, message.text) for message in told] == transcript("")


async def test_their_file_tools_work_on_this_machines_own_paths(theirs: Play, tmp_path: Path) -> None:
    told = await theirs(for_deepagents(FilesystemBackend(tmp_path)), *session(str(tmp_path)))
    assert [(message.status, message.text) for message in told] == transcript(str(tmp_path))


async def test_their_file_tools_work_in_a_sandbox(theirs: Play, sandbox: Sandbox) -> None:
    told = await theirs(for_deepagents(sandbox), *session(sandbox.workdir))
    assert [(message.status, message.text) for message in told] == transcript(sandbox.workdir)


async def test_commands_run_in_the_sandbox_that_the_file_tools_write_to(theirs: Play, sandbox: Sandbox) -> None:
    path = f"{sandbox.workdir}/answer.txt"
    told = await theirs(
        for_deepagents(sandbox),
        ("write_file", {"file_path": path, "content": "42"}),
        ("execute", {"command": "cat answer.txt; exit 3"}),
        ("execute", {"command": "sleep 60", "timeout": 1}),
    )
    assert told[1].text == "42\n[Command failed with exit code 3]"
    assert told[1].artifact == {"exit_code": 3, "truncated": False}
    assert told[2].text.endswith("[Command failed with exit code 124]")


async def test_a_sandbox_that_was_attached_on_the_agents_own_loop_serves_it(tmp_path: Path) -> None:
    provider = LocalProvider(tmp_path / "home")
    handle = await provider.create(SandboxSpec())
    try:
        async with await provider.attach(handle) as attached:
            told = await player(create_deep_agent, "async")(for_deepagents(attached), *session(attached.workdir))
            assert [(message.status, message.text) for message in told] == transcript(attached.workdir)
    finally:
        await provider.destroy(handle)


@pytest.mark.parametrize("wrap", [CompositeBackend, PolicyBackend], ids=["composite", "policy"])
async def test_a_sandbox_under_a_composite_or_a_policy_has_commands(
    wrap: Callable[[Any], BackendProtocol], theirs: Play, local: Sandbox
) -> None:
    [told] = await theirs(for_deepagents(wrap(local)), ("execute", {"command": "echo hello"}))
    assert told.text == "hello\n\n[Command succeeded with exit code 0]"


async def test_a_backend_without_commands_offers_none(theirs: Play) -> None:
    [told] = await theirs(for_deepagents(StateBackend()), ("execute", {"command": "echo hello"}))
    assert told.status == "error"
    assert "Execution not available" in told.text


async def test_a_long_result_goes_to_a_file_in_the_sandbox_and_all_of_it_can_be_read(theirs: Play, sandbox: Sandbox) -> None:
    evicted = "/tmp/fanfold/large_tool_results/call-0"
    told = await theirs(
        for_deepagents(sandbox),
        ("execute", {"command": "seq 60000"}),
        ("grep", {"pattern": "31415", "path": evicted, "output_mode": "content"}),
    )
    assert evicted in told[0].text
    assert told[1].text == f"{evicted}:\n  31415: 31415"


async def test_output_that_is_too_long_for_one_answer_names_the_file_that_has_it(theirs: Play, local: Sandbox) -> None:
    made = for_deepagents(local).execute("seq 1000000")  # type: ignore[attr-defined]  # it is a sandbox
    assert made.truncated
    kept = made.output.rpartition(" ")[2].rstrip("]")
    [told] = await theirs(for_deepagents(local), ("grep", {"pattern": "271828", "path": kept, "output_mode": "content"}))
    assert told.text == f"{kept}:\n  271828: 271828"


async def test_a_line_that_is_too_long_says_so_and_the_next_can_be_read(theirs: Play, local: Sandbox) -> None:
    path = f"{local.workdir}/long.txt"
    local.upload_files([(path, b"x" * 3_000_000 + b"\nthe end")])
    backend = for_deepagents(local)
    first = backend.read(path)
    assert first.file_data
    assert "x\n\n[This line is longer than one read returns" in first.file_data["content"]
    [told] = await theirs(backend, ("read_file", {"file_path": path, "offset": first.next_offset}))
    assert told.text == "@@ lines 2-2 of 2 @@\nthe end"


async def test_files_of_a_state_backend_are_in_the_agents_state(theirs: Play) -> None:
    kept = CompositeBackend(store(), {"/scratch/": StateBackend()})
    told = await theirs(
        for_deepagents(kept),
        ("write_file", {"file_path": "/scratch/a.txt", "content": "in the state"}),
        ("write_file", {"file_path": "/b.txt", "content": "in the store"}),
        ("grep", {"pattern": "in the", "output_mode": "content"}),
    )
    assert told[2].text == "/b.txt:\n  1: in the store\n/scratch/a.txt:\n  1: in the state"


async def test_their_permissions_hold_on_ours_and_look_where_a_link_leads(theirs: Play, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("hush")
    (tmp_path / "link").symlink_to(tmp_path / "secrets")
    deny = [FilesystemPermission(operations=["read"], paths=["/secrets/**"], mode="deny")]
    told = await theirs(
        for_deepagents(CompositeBackend(disk(tmp_path))),
        ("read_file", {"file_path": "/secrets/key"}),
        ("read_file", {"file_path": "/link/key"}),
        ("grep", {"pattern": "hush", "output_mode": "content"}),
        permissions=deny,
    )
    assert [message.status for message in told[:2]] == ["error", "error"]
    assert "hush" not in "".join(message.text for message in told[:2])
    assert told[2].text == "No matches found"


async def test_a_policy_of_ours_holds_under_their_tools(theirs: Play) -> None:
    told = await theirs(
        for_deepagents(PolicyBackend(StateBackend(), deny=["/secrets"])),
        ("write_file", {"file_path": "/secrets/key", "content": "x"}),
        ("read_file", {"file_path": "/secrets/key"}),
    )
    assert [message.text for message in told] == ["Error: '/secrets/key' cannot be used: the policy denies it"] * 2


async def test_a_write_replaces_a_file_when_it_was_asked_to(theirs: Play) -> None:
    told = await theirs(
        for_deepagents(StateBackend(), overwrite=True),
        ("write_file", {"file_path": "/a.txt", "content": "one"}),
        ("write_file", {"file_path": "/a.txt", "content": "two"}),
        ("read_file", {"file_path": "/a.txt"}),
    )
    assert [message.text for message in told] == ["Updated file /a.txt"] * 2 + ["@@ lines 1-1 of 1 @@\ntwo"]


async def test_an_image_is_read_as_an_image(theirs: Play, local: Sandbox) -> None:
    path = f"{local.workdir}/dot.png"
    local.upload_files([(path, b"\x89PNG")])
    [told] = await theirs(for_deepagents(local), ("read_file", {"file_path": path}))
    assert told.content_blocks[0]["type"] == "image"


async def test_memory_and_skills_of_theirs_are_read_from_ours(theirs: Play, local: Sandbox) -> None:
    skill = "---\nname: greeting\ndescription: Says hello.\n---\nSay hello.\n"
    files = [("AGENTS.md", "Be brief."), ("skills/greeting/SKILL.md", skill)]
    local.upload_files([(f"{local.workdir}/{name}", text.encode()) for name, text in files])
    [told] = await theirs(
        for_deepagents(local),
        ("read_file", {"file_path": f"{local.workdir}/skills/greeting/SKILL.md"}),
        memory=[f"{local.workdir}/AGENTS.md"],
        skills=[f"{local.workdir}/skills/"],
    )
    assert "Say hello." in told.text
