"""Texts that are too long for a conversation go to a file; what stays is their beginning, their end, and where they are."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from orchestrator.agent.render import clean, shown_path
from orchestrator.errors import FanfoldError
from sandboxes.backends.layered.steps import Call, Steps
from sandboxes.errors import FanfoldSandboxError
from sandboxes.protocol import BackendProtocol

CHARACTERS_PER_TOKEN = 4
"""An estimate that needs no tokenizer."""
TOKEN_LIMIT = 20_000
"""Tokens of a tool's result that stay in the conversation."""
HUMAN_TOKEN_LIMIT = 50_000
"""Tokens of a human's message that stay in the conversation."""
RESULTS = "large_tool_results"
MESSAGES = "large_messages"
PREVIEW_LINES = 5
"""Lines of the beginning, and of the end, that a preview shows."""
PREVIEW_LINE_CAP = 1000
"""Characters of a line of a preview."""
NAME_CAP = 100

PAGING = frozenset({"ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep"})
"""Tools whose results are bounded by themselves, and say how to read on."""

_PREVIEW = """\
[This {what} is too long: {size} characters in {lines} lines. All of it is in {path}: read it in windows with read_file (offset,
limit), or search it with grep. Its beginning and its end:]

{preview}"""


@dataclass(frozen=True)
class Store:
    """Where texts go."""

    backend: BackendProtocol
    root: str
    """The folder for the harness' own files, without a slash at its end."""


Shortened = Steps[list[AnyMessage]]


def text_of(message: BaseMessage) -> str:
    """The text in a message, without its other blocks."""
    if isinstance(message.content, str):
        return message.content
    parts = (part if isinstance(part, str) else part.get("text", "") for part in message.content)
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def is_large(message: BaseMessage, tokens: int) -> bool:
    """Whether the text of a message is more than so many tokens."""
    return len(text_of(message)) > tokens * CHARACTERS_PER_TOKEN


def evict_result(result: ToolMessage | Command[Any], store: Store, tokens: int) -> Steps[ToolMessage | Command[Any]]:
    """A tool's result with each message in it that is too long put to a file. When that fails it stays as it is."""
    if isinstance(result, ToolMessage):
        return (yield from _evict_one(result, store, tokens))
    update = result.update if isinstance(result, Command) else None
    messages = update.get("messages") if isinstance(update, dict) else None
    if not isinstance(update, dict) or not isinstance(messages, list):
        return result
    kept: list[Any] = []
    for message in messages:
        kept.append((yield from _evict_one(message, store, tokens)) if isinstance(message, ToolMessage) else message)
    return replace(result, update={**update, "messages": kept})


def _evict_one(message: ToolMessage, store: Store, tokens: int) -> Steps[ToolMessage]:
    kept: ToolMessage = yield from _evict(message, store, RESULTS, str(message.tool_call_id), "result", tokens)
    return kept


def evict_messages(messages: list[AnyMessage], store: Store, tokens: int) -> Shortened:
    """The human's messages that were too long, shortened. They keep their ids, so that they take the place of the long ones."""
    shortened: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, HumanMessage) and message.id and is_large(message, tokens):
            kept = yield from _evict(message, store, MESSAGES, message.id, "message", tokens)
            if kept is not message:
                shortened.append(kept)
    return shortened


def _evict(message: Any, store: Store, folder: str, name: str, what: str, tokens: int) -> Steps[Any]:
    if not is_large(message, tokens):
        return message
    content = clean(text_of(message))
    try:
        path = yield from _stored(store.backend, f"{store.root}/{folder}/{_safe(name)}", content)
    except (GraphBubbleUp, FanfoldError, FanfoldSandboxError):
        raise
    except Exception:
        return message
    return message if path is None else _shortened(message, content, path, what)


def _safe(name: str) -> str:
    """An id as the name of a file."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:NAME_CAP] or "_"


def _stored(backend: BackendProtocol, path: str, content: str) -> Steps[str | None]:
    """Where the content is now; None when it could not be written. An id that a provider gives twice gets a second file."""
    [written] = yield [Call(backend, "write", (path, content))]
    if written.error is None:
        return path
    data = content.encode()
    second = f"{path}-{hashlib.sha256(data).hexdigest()[:12]}"
    [[uploaded]] = yield [Call(backend, "upload_files", ([(second, data)],))]
    return second if uploaded.error is None else None


def _shortened(message: Any, content: str, path: str, what: str) -> Any:
    lines = content.count("\n") + 1
    told = _PREVIEW.format(what=what, size=len(content), lines=lines, path=shown_path(path), preview=preview(content))
    others = [] if isinstance(message.content, str) else [block for block in message.content if not _is_text(block)]
    return message.model_copy(update={"content": [{"type": "text", "text": told}, *others] if others else told})


def _is_text(block: str | dict[Any, Any]) -> bool:
    return isinstance(block, str) or block.get("type") == "text"


def preview(content: str) -> str:
    """The first and the last lines, with their numbers."""
    lines = content.splitlines()
    numbered = [f"{number:>6}\t{_clipped(line)}" for number, line in enumerate(lines[:PREVIEW_LINES], start=1)]
    rest = max(len(lines) - PREVIEW_LINES, PREVIEW_LINES)
    if rest > PREVIEW_LINES:
        numbered.append(f"[... {rest - PREVIEW_LINES} lines ...]")
    numbered += [f"{number:>6}\t{_clipped(line)}" for number, line in enumerate(lines[rest:], start=rest + 1)]
    return "\n".join(numbered)


def _clipped(line: str) -> str:
    return line if len(line) <= PREVIEW_LINE_CAP else line[:PREVIEW_LINE_CAP] + "..."
