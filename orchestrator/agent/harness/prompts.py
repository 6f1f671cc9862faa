"""The system prompt, which each part of the harness adds its own words to."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import ModelRequest
from langchain_core.messages import SystemMessage


def with_prompt(request: ModelRequest[Any], text: str) -> ModelRequest[Any]:
    """The request with one more block at the end of its system prompt."""
    blocks: list[Any] = list(request.system_message.content_blocks) if request.system_message is not None else []
    blocks.append({"type": "text", "text": f"\n\n{text}" if blocks else text})
    return request.override(system_message=SystemMessage(content=blocks))
