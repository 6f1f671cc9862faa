"""A conversation as bytes, and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from orchestrator.agent.conversation import answers_given, is_summary, summary_message
from orchestrator.agent.thread import from_json, to_json
from orchestrator.errors import InfrastructureError

SAID: list[BaseMessage] = [
    SystemMessage("You help.", id="0"),
    HumanMessage([{"type": "text", "text": "Look: \U0001f600 \x00 \ud800"}], id="1"),
    AIMessage(
        "I look.",
        id="2",
        tool_calls=[{"id": "c1", "name": "ls", "args": {"path": "/", "deep": [1, None, {"a": 1.5}]}, "type": "tool_call"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"scripted_turn": 1},
    ),
    ToolMessage("gone", tool_call_id="c1", id="3", status="error", name="ls"),
]


def test_messages_come_back_as_they_were() -> None:
    assert from_json(to_json(SAID)) == SAID
    assert from_json(to_json([])) == []


def test_it_is_json_with_a_list_of_messages() -> None:
    data = json.loads(to_json(SAID).decode())
    assert [(one["type"], one["data"]["id"]) for one in data["messages"]] == [
        ("system", "0"),
        ("human", "1"),
        ("ai", "2"),
        ("tool", "3"),
    ]


def test_a_summary_still_knows_what_it_stands_for() -> None:
    (again,) = from_json(to_json([summary_message("Before.", SAID, "s")]))
    assert is_summary(again)
    assert answers_given([again]) == 1


def test_what_json_has_no_word_for_becomes_text() -> None:
    message = ToolMessage("x", tool_call_id="c", artifact={"at": datetime(2026, 1, 2, tzinfo=UTC)})
    (again,) = from_json(to_json([message]))
    assert isinstance(again, ToolMessage)
    assert again.artifact == {"at": "2026-01-02 00:00:00+00:00"}


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b"{}", b'{"messages": [{}]}', b'{"messages": [{"type": "os", "data": {}}]}']
)
def test_bytes_that_were_never_written_are_refused(data: bytes) -> None:
    with pytest.raises(InfrastructureError, match="conversation of the thread"):
        from_json(data)
