"""What tools tell reaches the model without secrets."""

from __future__ import annotations

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command

from orchestrator.agent.harness import create_deep_agent
from orchestrator.agent.redaction import RedactedResults, redacted_result
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel

SCRIPT = b"""
turns:
  - tool_calls: [{id: a, name: reveal, args: {}}, {id: b, name: fails, args: {}}]
  - {text: done}
"""


def redact(text: str) -> str:
    return text.replace("s3cret", "***")


@tool
def reveal() -> str:
    """Tell it."""
    return "it is s3cret"


@tool
def fails() -> str:
    """Fail with it."""
    raise ValueError("wrong: s3cret")


def test_the_model_and_the_state_see_no_secret() -> None:
    model = ScriptedChatModel(script=load_script(SCRIPT, "s"), file="s")
    agent = create_deep_agent(model, [reveal, fails], around=[RedactedResults(redact)])
    state = agent.invoke({"messages": [("user", "go")]})
    result, failure = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    assert result.text == "it is ***"
    assert result.tool_call_id == "a"
    assert "ValueError: wrong: ***" in failure.text
    assert "s3cret" not in repr(state)


def test_blocks_and_what_comes_beside_the_text_are_gone_through() -> None:
    blocks = [{"type": "text", "text": "s3cret"}, {"type": "image", "base64": "AAAA", "extras": {"name": "s3cret"}}]
    result = redacted_result(ToolMessage(blocks, tool_call_id="a", artifact={"raw": ["s3cret", 1]}), redact)
    assert isinstance(result, ToolMessage)
    assert "s3cret" not in repr(result)
    assert result.artifact == {"raw": ["***", 1]}


def test_a_change_of_the_state_is_gone_through() -> None:
    messages = [ToolMessage("s3cret", tool_call_id="a"), AIMessage("s3cret")]
    result = redacted_result(Command(update={"messages": messages, "files": {"a": "s3cret"}}), redact)
    assert isinstance(result, Command)
    assert "s3cret" not in repr(result.update)
