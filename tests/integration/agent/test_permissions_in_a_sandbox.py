"""Permissions of a library's agent in real sandboxes: mounts made from them hold for commands, from any process."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_core.messages import HumanMessage, ToolMessage

from orchestrator.agent import FilesystemPermission, PermissionsRefused, create_deep_agent, mounts_for
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel
from sandboxes.backends import CompositeBackend, StateBackend
from sandboxes.providers.base import Mount, SandboxSpec
from sandboxes.providers.registry import get_provider

RULES = [
    FilesystemPermission(operations=["read", "write"], paths=["/usr/share/**"], mode="deny"),
    FilesystemPermission(operations=["write"], paths=["/workspace/vendor"], mode="deny"),
]
labels = {"fanfold.test": f"permissions-{os.getpid()}"}


def model(*calls: tuple[str, dict[str, Any]]) -> ScriptedChatModel:
    called = [{"id": f"c{number}", "name": name, "args": args} for number, (name, args) in enumerate(calls, start=1)]
    turns = [*([{"tool_calls": called}] if called else []), {"text": "done"}]
    return ScriptedChatModel(script=load_script(yaml.safe_dump({"turns": turns}).encode(), "script.yaml"))


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
async def made(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Makes a sandbox with these mounts, and attaches to it as another process would."""
    provider = get_provider(request.param, home=tmp_path / "home")
    image = "fanfold-test/base:latest" if request.param == "docker" else None
    labels = {"fanfold.test": secrets.token_hex(8)}

    async def make(*mounts: Mount) -> Any:
        await provider.create(SandboxSpec(image=image, mounts=mounts), labels)
        [handle] = await provider.find(labels)
        return await provider.attach(handle)

    try:
        yield make
    finally:
        for handle in await provider.find(labels):
            await provider.destroy(handle)
        await provider.aclose()


@pytest.fixture
def vendor() -> Any:
    """A folder of this machine that a sandbox's user can reach."""
    with tempfile.TemporaryDirectory(prefix="fanfold-vendor-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "lib").write_text("of the host\n")
        yield folder


async def test_what_rules_deny_no_command_can_do(made: Any, vendor: Path) -> None:
    mounts = [Mount(target=m.target, source=str(vendor)) if "vendor" in m.target else m for m in mounts_for(RULES)]
    async with await made(*mounts) as sandbox:
        calls = [
            ("execute", {"command": "ls -A /usr/share; cat /usr/share/*/*; true"}),
            ("execute", {"command": "echo x > vendor/lib"}),
            ("execute", {"command": "rm -rf vendor; mv vendor other; touch vendor/new"}),
            ("execute", {"command": "cat vendor/lib"}),
            ("read_file", {"file_path": "/usr/share/x"}),
            ("edit_file", {"file_path": "vendor/lib", "old_string": "host", "new_string": "agent"}),
        ]
        agent = create_deep_agent(model(*calls), backend=sandbox, permissions=RULES)
        state = await agent.ainvoke({"messages": [HumanMessage("go")]})
        told = {m.tool_call_id: m.text for m in state["messages"] if isinstance(m, ToolMessage)}
        assert "doc" not in told["c1"]
        assert "exit code 0" not in told["c2"] + told["c3"]
        assert told["c4"] == "of the host\n[Command succeeded with exit code 0]"
        assert "a permission denies it" in told["c5"]
        assert told["c6"] == "Error: '/workspace/vendor/lib' must not be changed: a permission denies it"
    assert (vendor / "lib").read_text() == "of the host\n"


async def test_a_sandbox_that_was_made_without_the_mounts_is_refused(made: Any) -> None:
    async with await made() as sandbox:
        for backend in (sandbox, CompositeBackend(default=sandbox, routes={"/memories/": StateBackend()})):
            with pytest.raises(PermissionsRefused, match="the sandbox was made without it"):
                create_deep_agent(model(), backend=backend, permissions=RULES)


async def test_a_long_result_lies_outside_of_the_workspace_and_can_be_read_back(made: Any) -> None:
    async with await made() as sandbox:
        calls = [("execute", {"command": "seq 18000"})]
        state = await create_deep_agent(model(*calls), backend=sandbox).ainvoke({"messages": [HumanMessage("go")]})
        told = next(m.text for m in state["messages"] if isinstance(m, ToolMessage))
        assert "All of it is in /tmp/fanfold/large_tool_results/c1" in told
        read = await sandbox.aread("/tmp/fanfold/large_tool_results/c1", 17_999, 1)
        assert read.content == "18000\n"
        assert (await sandbox.als(".")).entries == []
