"""The agent in real sandboxes: the example from start to end, and the tools over the resident helper."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent.render import TEXT_CAP
from orchestrator.agent.run import AgentOutcome, run_agent
from orchestrator.agentspec import AgentSpec
from orchestrator.spec import load_task
from sandboxes.errors import SandboxError
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.local import LocalProvider
from sandboxes.providers.registry import get_provider
from sandboxes.sandbox import Sandbox

EXAMPLE = Path(__file__).parents[3] / "examples" / "fix-the-bug"
IMAGE = "fanfold-test/base:latest"


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
async def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sandbox]:
    provider = get_provider(request.param, home=tmp_path / "home")
    image = IMAGE if request.param == "docker" else None
    handle = await provider.create(SandboxSpec(image=image, env={"PYTHONDONTWRITEBYTECODE": "1"}))
    try:
        async with await provider.attach(handle) as attached:
            yield attached
    finally:
        await provider.destroy(handle)
        await provider.aclose()


async def upload_example(sandbox: Sandbox) -> None:
    repository = EXAMPLE / "repo"
    files = [(path.relative_to(repository).as_posix(), path.read_bytes()) for path in repository.rglob("*.*") if path.is_file()]
    assert all(answer.error is None for answer in await sandbox.aupload_files(files))


async def run(
    sandbox: Sandbox, script: bytes, files: Path, events: list[Any], thread: str = "run-1", **spec: Any
) -> AgentOutcome:
    (files / "model.yaml").write_bytes(script)
    asked = AgentSpec(**{"prompt": "Do it.", "model": "scripted:script.yaml", **spec})
    return await run_agent(
        asked, sandbox, emit=lambda kind, data: events.append((kind, data)), files=files, api_key=None, thread_id=thread
    )


def results(events: list[Any]) -> dict[str, str]:
    return {data["id"]: data["text"] for kind, data in events if kind == "tool.result"}


async def test_the_example_is_fixed_in_the_sandbox(sandbox: Sandbox, tmp_path: Path) -> None:
    await upload_example(sandbox)
    task = load_task(EXAMPLE / "task.yaml")
    assert task.agent
    assert task.verify
    assert (await sandbox.aexecute(task.verify)).exit_code == 1

    await run(sandbox, (EXAMPLE / "script.yaml").read_bytes(), tmp_path, [], prompt=task.agent.prompt)
    assert (await sandbox.aexecute(task.verify)).exit_code == 0


async def test_a_recording_made_in_one_sandbox_is_replayed_in_it(sandbox: Sandbox, tmp_path: Path) -> None:
    script = b"""
        turns:
          - tool_calls:
              - {id: a, name: execute, args: {command: date; echo hello > f; pwd}}
          - tool_calls: [{id: b, name: ls, args: {path: .}}]
          - {text: done}
    """
    recorded = await run(sandbox, script, tmp_path, [], model="record:c.yaml=scripted:s.yaml")
    cassette = recorded.artifacts["c.yaml"]
    replayed = await run(sandbox, cassette, tmp_path, [], model="replay:c.yaml", thread="run-2")
    assert replayed.text == recorded.text


async def test_every_byte_of_a_long_line_can_be_reached(sandbox: Sandbox, tmp_path: Path) -> None:
    content = "".join(f"{number:07}," for number in range(400_000)) + "the end"
    await sandbox.aupload_files([("long", b"first\n" + content.encode())])
    script = rb"""
        turns:
          - tool_calls: [{id: a, name: read_file, args: {file_path: long, offset: 1}}]
          - expect: {result: a, contains: "0000000,"}
            tool_calls:
              - {id: b, name: read_file, args: {file_path: long, byte_offset: "{{ results.a.match('byte_offset=(\\d+)') }}"}}
              - {id: c, name: read_file, args: {file_path: long, byte_offset: 3200006}}
          - {text: done}
    """
    events: list[Any] = []
    await run(sandbox, script, tmp_path, events)
    found = results(events)
    assert found["a"].startswith("     2\t0000000,")
    assert found["b"].startswith(content[TEXT_CAP : TEXT_CAP + 1000])
    assert found["c"] == "the end"


async def test_a_tool_call_that_is_repeated_takes_no_effect_twice(sandbox: Sandbox, tmp_path: Path) -> None:
    script = b"turns: [{tool_calls: [{id: a, name: execute, args: {command: echo x >> f; wc -l < f}}]}, {text: done}]"
    events: list[Any] = []
    await run(sandbox, script, tmp_path, events)
    await run(sandbox, script, tmp_path, events)
    told = [data["text"] for kind, data in events if kind == "tool.result"]
    assert told == ["1\n[Command succeeded with exit code 0]"] * 2, "the second attempt got the recorded result"


async def test_long_output_is_cut_and_its_rest_can_be_found(sandbox: Sandbox, tmp_path: Path) -> None:
    script = rb"""
        turns:
          - tool_calls: [{id: a, name: execute, args: {command: seq 100000}}]
          - expect: {result: a, contains: "Output truncated"}
            tool_calls:
              - id: b
                name: grep
                args: {pattern: "54321", path: "{{ results.a.match('is in (\\S+):') }}", output_mode: content}
          - expect: {result: b, contains: ":54321"}
            text: done
    """
    assert (await run(sandbox, script, tmp_path, [])).text == "done"


async def test_a_sandbox_that_is_gone_ends_the_run(tmp_path: Path) -> None:
    provider = LocalProvider(tmp_path / "home")
    handle = await provider.create(SandboxSpec())
    try:
        async with await provider.attach(handle) as sandbox:
            await provider.destroy(handle)
            script = b"turns: [{tool_calls: [{name: execute, args: {command: 'true'}}]}, {text: done}]"
            events: list[Any] = []
            with pytest.raises(SandboxError):
                await run(sandbox, script, tmp_path, events)
            assert results(events) == {}
    finally:
        await provider.destroy(handle)
