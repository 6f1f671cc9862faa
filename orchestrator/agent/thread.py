"""A conversation as bytes: what one run of a thread leaves for the next."""

from __future__ import annotations

import json
from collections.abc import Sequence

from langchain_core.messages import BaseMessage, messages_from_dict, messages_to_dict

from orchestrator.errors import InfrastructureError

MESSAGES = "messages"
"""The key of the messages."""


def to_json(messages: Sequence[BaseMessage]) -> bytes:
    """`{"messages": [...]}` in UTF-8, as langchain writes messages down. What JSON has no word for becomes its text."""
    return json.dumps({MESSAGES: messages_to_dict(messages)}, default=str).encode()


def from_json(data: bytes) -> list[BaseMessage]:
    """The messages that `to_json` wrote. Raises `InfrastructureError` for bytes that it never wrote."""
    try:
        return messages_from_dict(json.loads(data)[MESSAGES])
    except (ValueError, KeyError, TypeError) as exc:
        raise InfrastructureError(f"the conversation of the thread cannot be read: {type(exc).__name__}: {exc}") from exc
