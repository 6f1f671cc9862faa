"""One agent run: its events, its limits, and which errors go to the model and which end the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orchestrator.agent.middleware import ModelCalls
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel
from orchestrator.agent.transcript import ARGUMENT_CAP, RESULT_CAP, bounded
from orchestrator.errors import BadInput, InfrastructureError, TaskFailed
from sandboxes.backends import LocalShellBackend
from sandboxes.errors import SandboxGone
from sandboxes.protocol import ExecuteResponse

ONE_COMMAND = "turns: [{tool_calls: [{id: a, name: execute, args: {command: COMMAND}}]}, {text: done}]"


async def test_events_come_in_the_order_of_what_happened(agents: Any) -> None:
    outcome = await agents.run("""
        turns:
          - {text: looking, tool_calls: [{id: a, name: ls, args: {path: .}}], usage: {input_tokens: 10, output_tokens: 2}}
          - {text: done, usage: {input_tokens: 20, output_tokens: 3}}
    """)
    assert agents.told() == [
        ("model.message", {"text": "looking", "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}}),
        ("tool.call", {"id": "a", "name": "ls", "args": {"path": "."}}),
        ("tool.result", {"id": "a", "name": "ls", "text": "[. is empty]", "status": "success"}),
        ("model.message", {"text": "done", "usage": {"input_tokens": 20, "output_tokens": 3, "total_tokens": 23}}),
    ]
    assert (outcome.text, outcome.steps) == ("done", 2)
    assert outcome.usage == {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35}
    assert outcome.artifacts == {}


async def test_a_model_that_tells_no_usage_costs_nothing_known(agents: Any) -> None:
    outcome = await agents.run("turns: [{text: done}]")
    assert outcome.usage == {}
    assert [data for _, data in agents.told()] == [{"text": "done", "usage": {}}]


async def test_tool_calls_of_one_answer_run_at_the_same_time(agents: Any) -> None:
    wait = "touch {0}; for i in $(seq 500); do [ -e {1} ] && exit 0; sleep 0.01; done; exit 1"
    await agents.run(f"""
        turns:
          - tool_calls:
              - {{id: a, name: execute, args: {{command: "{wait.format("a", "b")}"}}}}
              - {{id: b, name: execute, args: {{command: "{wait.format("b", "a")}"}}}}
          - text: done
    """)
    assert [data["id"] for data in agents.of("tool.call")] == ["a", "b"]
    assert agents.results() == dict.fromkeys("ab", "[Command succeeded with exit code 0]")


async def test_each_mutating_call_has_an_id_of_its_own_that_a_second_attempt_repeats(agents: Any) -> None:
    script = """
        turns:
          - tool_calls:
              - {id: a, name: write_file, args: {file_path: f, content: x}}
              - {id: b, name: execute, args: {command: "true"}}
          - tool_calls: [{id: c, name: edit_file, args: {file_path: f, old_string: x, new_string: y}}]
          - text: done
    """
    await agents.run(script)
    first = list(agents.backend.call_ids)
    await agents.run(script)
    assert sorted(first) == ["run-1:1:a#0", "run-1:1:b#0", "run-1:2:c#0"]
    assert sorted(agents.backend.call_ids[3:]) == sorted(first)


async def test_what_a_model_can_mend_comes_back_as_an_error_message(agents: Any) -> None:
    await agents.run("""
        turns:
          - tool_calls:
              - {id: missing, name: read_file, args: {file_path: nope.txt}}
              - {id: invalid, name: read_file, args: {offset: first}}
              - {id: unknown, name: fly, args: {}}
          - expect: {status: error}
            text: done
    """)
    assert {data["status"] for data in agents.of("tool.result")} == {"error"}
    results = agents.results()
    assert results["missing"].endswith("nope.txt' not found")
    assert "file_path: Field required; offset: Input should be a valid integer" in results["invalid"]
    assert "fly is not a valid tool" in results["unknown"]


async def test_an_exception_of_a_tool_becomes_an_error_message(agents: Any) -> None:
    def broken(command: str, *, timeout: int | None = None) -> ExecuteResponse:
        raise RuntimeError("no such luck")

    agents.backend.execute = broken
    await agents.run(ONE_COMMAND)
    (result,) = agents.of("tool.result")
    assert (result["text"], result["status"]) == ("Error: execute failed: RuntimeError: no such luck", "error")


async def test_a_sandbox_that_fails_ends_the_run_and_is_no_result(agents: Any) -> None:
    def gone(command: str, *, timeout: int | None = None) -> ExecuteResponse:
        raise SandboxGone("it was killed")

    agents.backend.execute = gone
    with pytest.raises(SandboxGone, match="it was killed"):
        await agents.run(ONE_COMMAND)
    assert agents.of("tool.result") == []


async def test_a_command_that_fails_is_a_result(agents: Any) -> None:
    await agents.run(ONE_COMMAND.replace("COMMAND", "exit 7"))
    (result,) = agents.of("tool.result")
    assert (result["text"], result["status"]) == ("[Command failed with exit code 7]", "success")


async def test_the_last_allowed_call_of_the_model_may_finish(agents: Any) -> None:
    assert (await agents.run(ONE_COMMAND, max_steps=2)).text == "done"


async def test_more_calls_of_the_model_than_allowed_fail_the_task(agents: Any) -> None:
    with pytest.raises(TaskFailed, match=r"not done after 1 calls of its model \(agent.max_steps\)"):
        await agents.run(ONE_COMMAND, max_steps=1)
    assert len(agents.of("model.message")) == 1


async def test_many_steps_are_no_trouble_for_the_graph(agents: Any) -> None:
    turns = "".join("- tool_calls: [{name: glob, args: {pattern: '*'}}]\n" for _ in range(150))
    outcome = await agents.run(f"turns:\n{turns}- text: done", max_steps=151)
    assert outcome.steps == 151


async def test_todos_are_told(agents: Any) -> None:
    todos = [{"content": "one", "status": "in_progress"}, {"content": "two", "status": "pending"}]
    call = {"name": "write_todos", "args": {"todos": todos}}
    await agents.run(str({"turns": [{"tool_calls": [call]}, {"text": "done"}]}))
    assert agents.of("todos.updated") == [{"todos": todos}]


async def test_two_todo_lists_in_one_answer_are_an_error(agents: Any) -> None:
    call = {"name": "write_todos", "args": {"todos": [{"content": "one", "status": "pending"}]}}
    await agents.run(str({"turns": [{"tool_calls": [call, call]}, {"expect": {"status": "error"}, "text": "done"}]}))
    assert {data["status"] for data in agents.of("tool.result")} == {"error"}


async def test_a_system_prompt_replaces_the_built_in_one(agents: Any) -> None:
    recorded = await agents.run("turns: [{text: hi}]", model="record:c.yaml=scripted:s.yaml", system_prompt="You are terse.")
    cassette = recorded.artifacts["c.yaml"].decode()
    assert "You are terse." in cassette
    assert "You work in a sandbox" not in cassette


async def test_events_are_small_whatever_the_tools_say(agents: Any) -> None:
    await agents.run(f"""
        turns:
          - tool_calls:
              - {{id: a, name: execute, args: {{command: "head -c 70000 /dev/zero | tr '\\\\0' x"}}}}
              - {{id: b, name: write_file, args: {{file_path: f, content: "{"y" * 50_000}"}}}}
          - expect: {{result: a, matches: 'x{{70000}}'}}
            text: done
    """)
    assert len(agents.results()["a"]) < RESULT_CAP + 100
    assert len(agents.of("tool.call")[1]["args"]["content"]) < ARGUMENT_CAP + 100


def test_arguments_of_any_shape_fit_an_event() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = {"k": [deep]}
    assert len(repr(bounded(deep))) < ARGUMENT_CAP * 2
    assert len(bounded(list(range(10_000)))) == 200
    assert bounded({"n": float("nan"), "b": True, "t": "a\ud800"}) == {"n": "nan", "b": True, "t": "a?"}


async def test_a_cancelled_run_ends_at_once(agents: Any) -> None:
    started = asyncio.Event()

    async def forever(command: str, *, timeout: int | None = None) -> ExecuteResponse:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    agents.backend.aexecute = forever
    run = asyncio.create_task(agents.run(ONE_COMMAND))
    await asyncio.wait_for(started.wait(), 10)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 10)


class Refused(Exception):
    def __init__(self, status_code: int | None) -> None:
        super().__init__("header x-api-key: sk-secret was not accepted")
        self.status_code = status_code


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [(401, BadInput, "refuses the key"), (404, BadInput, "does not know it"), (500, InfrastructureError, "the call failed")],
)
async def test_what_a_provider_raises_is_told_without_the_key(status: int, kind: type[Exception], said: str) -> None:
    async def handler(request: Any) -> Any:
        raise Refused(status)

    with pytest.raises(kind, match=said) as caught:
        await ModelCalls("openai:x", "sk-secret").awrap_model_call(None, handler)  # type: ignore[arg-type]
    assert "sk-secret" not in str(caught.value)
    assert "openai:x" in str(caught.value)


NESTED = """
    turns:
      - tool_calls: [{id: a, name: task, args: {description: Do it., subagent_type: general-purpose}}]
      - text: done
"""


async def test_the_calls_of_subagents_have_ids_that_a_second_attempt_repeats(agents: Any, monkeypatch: Any) -> None:
    inner = ScriptedChatModel(
        script=load_script(
            b"""
            turns:
              - tool_calls: [{id: a, name: write_file, args: {file_path: f, content: x}}]
              - tool_calls: [{id: a2, name: execute, args: {command: "true"}}]
              - text: done
            """,
            "inner.yaml",
        )
    )
    monkeypatch.setattr("orchestrator.agent.run.provided", lambda *_: inner)
    worker = {"name": "worker", "description": "Works.", "system_prompt": "Work.", "model": "openai:x"}
    script = NESTED.replace("general-purpose", "worker")
    await agents.run(script, subagents=[worker])
    first = list(agents.backend.call_ids)
    await agents.run(script, subagents=[worker])
    assert first == ["run-1:1:a/1:a#0", "run-1:1:a/2:a2#0"]
    assert agents.backend.call_ids[2:] == first
    assert agents.results()["a"] == "done"


async def test_permissions_that_cannot_be_enforced_end_the_run_before_it_begins(agents: Any) -> None:
    rules = [{"operations": ["write"], "paths": ["tests"], "mode": "deny"}]
    with pytest.raises(BadInput, match="cannot be enforced for the commands of FolderBackend"):
        await agents.run("turns: [{text: done}]", permissions=rules)


async def test_a_backend_without_isolation_is_refused_unless_it_is_allowed(agents: Any, folder: Any) -> None:
    agents.backend = LocalShellBackend(root_dir=folder)
    with pytest.raises(BadInput, match="LocalShellBackend runs commands on this machine itself"):
        await agents.run("turns: [{text: done}]")


async def test_memory_and_skills_are_read_from_the_workspace(agents: Any, write: Any) -> None:
    write("AGENTS.md", "Tabs, not spaces.")
    write("skills/bake/SKILL.md", "---\nname: bake\ndescription: Bakes bread.\n---\nKnead.\n")
    recorded = await agents.run(
        "turns: [{text: hi}]", model="record:c.yaml=scripted:s.yaml", memory=["AGENTS.md"], skills=["skills"]
    )
    cassette = recorded.artifacts["c.yaml"].decode()
    assert "Tabs, not spaces." in cassette
    assert "Bakes bread." in cassette
