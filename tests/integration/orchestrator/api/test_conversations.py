"""What is said in a thread, by runs that a real worker executes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
import yaml

pytestmark = pytest.mark.usefixtures("worker")

Say = Callable[..., dict[str, Any]]
NEVER = "sleep 300"


@pytest.fixture
def thread(client: httpx.Client) -> str:
    return str(client.post("/v1/threads").json()["id"])


@pytest.fixture
def say(client: httpx.Client, thread: str) -> Say:
    """Submit a run to the thread, whose agent says and asks these things."""

    def submit(prompt: str, *turns: dict[str, Any], strategy: str = "enqueue") -> dict[str, Any]:
        content = yaml.safe_dump({"turns": list(turns)})
        upload = client.post("/v1/uploads", content=content, headers={"Content-Type": "application/octet-stream"}).json()
        task = {"agent": {"prompt": prompt, "model": "scripted:it"}}
        order = {"task": task, "uploads": {"model": upload["id"]}, "thread_id": thread, "multitask_strategy": strategy}
        answer = client.post("/v1/runs", json=order)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    return submit


def shell(command: str, name: str = "it") -> dict[str, Any]:
    return {"text": "I look.", "tool_calls": [{"id": name, "name": "execute", "args": {"command": command}}]}


def ended(client: httpx.Client, run: dict[str, Any]) -> str:
    answer = client.get(f"/v1/runs/{run['id']}/join", params={"timeout": 100})
    assert answer.status_code == 200, answer.text
    assert answer.json()["error"] is None, answer.text
    return str(answer.json()["status"])


def said(client: httpx.Client, thread: str) -> list[tuple[str, str]]:
    items = client.get(f"/v1/threads/{thread}/messages").json()["items"]
    return [(one["role"], one["text"]) for one in items if one["role"] in ("user", "assistant")]


def wait_for_tool(client: httpx.Client, run: dict[str, Any]) -> None:
    """Until the run has asked for a tool."""
    after = 0
    while True:
        answer = client.get(f"/v1/runs/{run['id']}/events", params={"after": after, "wait": 30}).json()
        if any(event["type"] == "tool.call" for event in answer["items"]):
            return
        assert not answer["ended"], "the tool was never called"
        assert answer["items"], "nothing happened"
        after = answer["items"][-1]["seq"]


def test_runs_of_a_thread_go_on_with_what_was_said(client: httpx.Client, thread: str, say: Say) -> None:
    first = say("Who are you?", shell("echo fanfold"), {"text": "I am Fanfold."})
    second = say("And now?", {"text": "Still the same."})
    assert [ended(client, first), ended(client, second)] == ["success", "success"]
    assert said(client, thread) == [
        ("user", "Who are you?"),
        ("assistant", "I look."),
        ("assistant", "I am Fanfold."),
        ("user", "And now?"),
        ("assistant", "Still the same."),
    ]
    items = client.get(f"/v1/threads/{thread}/messages").json()["items"]
    call, answer = items[1], items[2]
    assert [(one["name"], one["args"]["command"]) for one in call["tool_calls"]] == [("execute", "echo fanfold")]
    assert (answer["role"], answer["tool_call_id"]) == ("tool", call["tool_calls"][0]["id"])
    assert "fanfold" in answer["text"]


def test_what_an_interrupted_run_said_stays(client: httpx.Client, thread: str, say: Say) -> None:
    first = say("Wait for me.", shell(NEVER))
    wait_for_tool(client, first)
    second = say("Stop that.", {"text": "I have stopped."}, strategy="interrupt")
    assert [ended(client, first), ended(client, second)] == ["cancelled", "success"]
    assert said(client, thread) == [
        ("user", "Wait for me."),
        ("assistant", "I look."),
        ("user", "Stop that."),
        ("assistant", "I have stopped."),
    ]


def test_what_a_run_said_that_was_rolled_back_is_dropped(client: httpx.Client, thread: str, say: Say) -> None:
    assert ended(client, say("Remember this.", {"text": "I do."})) == "success"
    first = say("Forget this.", shell(NEVER))
    wait_for_tool(client, first)
    second = say("Go on.", {"text": "I went on."}, strategy="rollback")
    assert [ended(client, first), ended(client, second)] == ["cancelled", "success"]
    assert said(client, thread) == [
        ("user", "Remember this."),
        ("assistant", "I do."),
        ("user", "Go on."),
        ("assistant", "I went on."),
    ]
