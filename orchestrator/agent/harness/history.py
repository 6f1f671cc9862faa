"""The part of a conversation that was cut, in a file: nothing that was said is lost, and the agent can search it.

Each cut appends a section to `{artifacts_root}/conversation_history/{thread_id}.md`. A section carries the ids of its first
and its last message, so that an attempt which is repeated after a crash does not write it twice.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from orchestrator.agent.conversation import is_summary
from orchestrator.agent.middleware import PASS_THROUGH
from orchestrator.agent.render import clean
from sandboxes.backends.layered.steps import Call, Steps
from sandboxes.protocol import BackendProtocol, FileDownloadResponse, described

FOLDER = "conversation_history"
NAME_CAP = 100
"""Characters of a thread's id that the name of its file keeps."""
HISTORY_CAP = 32 * 1024 * 1024
"""Bytes up to which a history grows: every section that is added moves the whole file."""


def history_path(root: str, configurable: Mapping[str, Any], messages: Sequence[BaseMessage]) -> str:
    """The file of this conversation: by its thread, or, without one, by the id that its first message keeps.

    A graph that runs inside another one shares its thread: the name tells their conversations apart.
    """
    name = configurable.get("thread_id") or messages[0].id or "conversation"
    inside, _, _ = str(configurable.get("checkpoint_ns") or "").rpartition("|")
    nested = f"-{hashlib.sha256(inside.encode()).hexdigest()[:12]}" if inside else ""
    return f"{root}/{FOLDER}/{_safe_name(str(name))}{nested}.md"


def _safe_name(name: str) -> str:
    """`name` as one component of a path. What had to be changed is told apart by a digest."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:NAME_CAP]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def saved(backend: BackendProtocol, path: str, cut: Sequence[AnyMessage]) -> Steps[str | None]:
    """Append `cut` to the file. The answer is None, or why it could not be done; a sandbox that fails raises."""
    try:
        [[found]] = yield [Call(backend, "download_files", [[path]])]
        content = _appended(found, cut)
        if not isinstance(content, bytes):
            return content
        [[answer]] = yield [Call(backend, "upload_files", [[(path, content)]])]
    except PASS_THROUGH:
        raise
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
    return described(path, answer.error) if answer.error else None


def _appended(found: FileDownloadResponse, cut: Sequence[AnyMessage]) -> bytes | str | None:
    """The file with one section more, why it cannot have one, or None when it has it already."""
    if found.error and found.error != "file_not_found":
        return described(found.path, found.error)
    before = found.content or b""
    mark = f"<!-- messages {cut[0].id} to {cut[-1].id} -->\n".encode()
    if mark in before:
        return None
    after = before + mark + section(cut).encode()
    return after if len(after) <= HISTORY_CAP else f"the file would have more than {HISTORY_CAP} bytes"


def section(messages: Sequence[AnyMessage]) -> str:
    """Messages as Markdown. What was said is indented, so that no text can pass for another message's heading."""
    return clean("".join(f"## {_heading(message)}\n\n{_indented(_said(message))}\n\n" for message in messages))


def _heading(message: AnyMessage) -> str:
    if isinstance(message, ToolMessage):
        return f"Result of {json.dumps(message.tool_call_id)} ({message.status})"
    if isinstance(message, HumanMessage):
        return "Summary" if is_summary(message) else "User"
    return "Agent" if isinstance(message, AIMessage) else message.type.capitalize()


def _said(message: AnyMessage) -> str:
    parts = [text_of(block) for block in _blocks(message)]
    if isinstance(message, AIMessage):
        parts += [f"-> {call['name']} {json.dumps(call['id'])} {_arguments(call['args'])}" for call in message.tool_calls]
    return "\n".join(part for part in parts if part)


def _blocks(message: BaseMessage) -> list[str | dict[str, Any]]:
    return [message.content] if isinstance(message.content, str) else list(message.content)


def _arguments(args: Mapping[str, Any]) -> str:
    return json.dumps(args, ensure_ascii=False, default=str)


def text_of(block: str | Mapping[str, Any]) -> str:
    """A block of a message's content as text; of what is not text only what it is. A tool call is told elsewhere."""
    if isinstance(block, str):
        return block
    kind = str(block.get("type", "block"))
    if kind in ("tool_use", "tool_call"):
        return ""
    if kind == "text":
        return str(block.get("text", ""))
    return " ".join(["[" + kind, *filter(None, [str(block.get("mime_type") or ""), "not kept here]"])])


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()) or "    (nothing)"
