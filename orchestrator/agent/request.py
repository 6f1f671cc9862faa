"""What a model is asked, in a form that is the same on every day and on every machine.

Two requests are the same when their digests are. So what changes from run to run without meaning anything is taken out first:
ids that providers make up, times, durations, addresses, names of temporary files and of sandboxes. Keys are taken out too,
since cassettes are committed to repositories.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

SETTINGS = (
    "frequency_penalty",
    "max_tokens",
    "parallel_tool_calls",
    "presence_penalty",
    "response_format",
    "seed",
    "stop",
    "temperature",
    "tool_choice",
    "top_k",
    "top_p",
)
"""Parameters of a call that make another request of it. No others are kept: they may hold keys."""

BLOB_CAP = 1000
"""Characters of a text in a block that is no text (an image), above which only its digest is kept."""

KEYS = re.compile(r"\b(?:sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|gh[opsu]_[A-Za-z0-9]{30,})")
"""What looks like a key of a model's provider or of a code host."""

_VOLATILE = (
    (KEYS, "<key>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\bsbx-[0-9a-f]{16}\b"), "<sandbox>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z\b|[+-]\d\d:?\d\d\b)?)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|sec|secs|second|seconds)\b"), "<duration>"),
    (re.compile(r"\b0x[0-9a-f]{6,16}\b"), "<address>"),
    (re.compile(r"/tmp/tmp[a-z0-9_]{8}\b"), "/tmp/<name>"),  # noqa: S108 - a pattern, not a file
)

Json = dict[str, Any]
ToolLike = dict[str, Any] | type | Callable[..., Any] | BaseTool


def steady(text: str) -> str:
    """`text` without what changes from run to run."""
    for pattern, name in _VOLATILE:
        text = pattern.sub(name, text)
    return text


def digest(value: Any) -> str:
    """SHA-256 of a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Request:
    """A normalized request."""

    messages: tuple[Json, ...]
    tools: tuple[Json, ...]
    settings: Json

    def prefixes(self) -> list[str]:
        """A digest for each beginning of the conversation: of its first message, of its first two, and so on."""
        return chain("", self.messages)

    @property
    def key(self) -> str:
        """The digest of all of it."""
        return request_key(self.prefixes()[-1] if self.messages else "", self.tools, self.settings)


def chain(before: str, messages: Sequence[Json]) -> list[str]:
    """Digests of a conversation as it grows by each of `messages`, from the digest of what came before."""
    found = []
    for message in messages:
        before = digest([before, message])
        found.append(before)
    return found


def request_key(conversation: str, tools: Sequence[Json], settings: Json) -> str:
    """The digest of a request from that of its conversation."""
    return digest([conversation, list(tools), settings])


def describe_tools(tools: Sequence[ToolLike]) -> tuple[Json, ...]:
    """Name, description and parameters of each tool."""
    described = [convert_to_openai_tool(tool) for tool in tools]
    return tuple(tool.get("function", tool) for tool in described)


def normalize(
    messages: Sequence[BaseMessage], tools: Sequence[Json], stop: Sequence[str] | None, parameters: Mapping[str, Any]
) -> Request:
    """The request that a model is sent with these."""
    given = {**parameters, **({"stop": list(stop)} if stop else {})}
    settings = {name: _plain(given[name]) for name in SETTINGS if given.get(name) is not None}
    names: dict[str, str] = {}
    return Request(tuple(_message(message, names) for message in messages), tuple(tools), settings)


def _plain(value: Any) -> Any:
    """As JSON would bring it back, so that what was recorded and what is asked compare equal."""
    return json.loads(json.dumps(value, default=str))


_ROLES = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}


def _message(message: BaseMessage, names: dict[str, str]) -> Json:
    """One message; `names` renames the ids of tool calls in the order in which they come up."""
    found: Json = {"role": _ROLES.get(message.type, message.type)}
    if isinstance(message, ToolMessage):
        found |= {"call": _renamed(message.tool_call_id, names), "status": message.status}
    if text := steady(str(message.text)):
        found["text"] = text
    if blocks := _other_blocks(message):
        found["blocks"] = blocks
    if isinstance(message, AIMessage) and message.tool_calls:
        found["tool_calls"] = [
            {"id": _renamed(call["id"], names), "name": call["name"], "args": _steady_value(_plain(call["args"]))}
            for call in message.tool_calls
        ]
    return found


def _renamed(call_id: str | None, names: dict[str, str]) -> str:
    return names.setdefault(call_id or "", f"call-{len(names) + 1}")


def _other_blocks(message: BaseMessage) -> list[Json]:
    """The blocks that are neither text nor tool calls: thoughts, images."""
    content = message.content if isinstance(message.content, list) else []
    blocks = [block for block in content if isinstance(block, dict) and block.get("type") not in _TOLD_ELSEWHERE]
    return [_steady_value(_plain({k: v for k, v in block.items() if k not in _VOLATILE_KEYS})) for block in blocks]


_TOLD_ELSEWHERE = ("text", "tool_use", "tool_call", "function_call", "input_json_delta")
_VOLATILE_KEYS = ("id", "index", "signature")


def _steady_value(value: Any) -> Any:
    if isinstance(value, str):
        return steady(value) if len(value) <= BLOB_CAP else _steady_long(value)
    if isinstance(value, dict):
        return {key: _steady_value(item) for key, item in value.items()}
    return [_steady_value(item) for item in value] if isinstance(value, list) else value


def _steady_long(value: str) -> str:
    """Text stays text; what has no white space in so long a stretch is a blob."""
    return steady(value) if any(char.isspace() for char in value[:BLOB_CAP]) else f"<sha256:{digest(value)}>"
