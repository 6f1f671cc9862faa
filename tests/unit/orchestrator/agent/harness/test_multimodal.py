"""Media as a model is shown them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage

from orchestrator.agent.harness.filesystem import FilesystemMiddleware
from orchestrator.agent.harness.multimodal import MEDIA_CAP
from orchestrator.agent.scripted import ScriptedChatModel
from sandboxes.backends import StateBackend

Scripted = Callable[..., ScriptedChatModel]
GO: Any = {"messages": [HumanMessage("go")]}


def shown(scripted: Scripted, path: str, content: bytes, *, later: bool = False) -> ToolMessage:
    backend = StateBackend()
    backend.upload_files([(path, content)])
    agent = create_agent(
        scripted([("read_file", {"file_path": path})]), middleware=[FilesystemMiddleware(backend=backend)]
    )
    state = asyncio.run(agent.ainvoke(GO)) if later else agent.invoke(GO)
    return next(message for message in state["messages"] if isinstance(message, ToolMessage))


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("name", "kind", "mime"),
    [
        ("a.png", "image", "image/png"),
        ("a.JPG", "image", "image/jpeg"),
        ("a.svg", "image", "image/svg+xml"),
        ("a.mp3", "audio", "audio/mpeg"),
        ("a.webm", "video", "video/webm"),
        ("a.pdf", "file", "application/pdf"),
        ("a.pptx", "file", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ],
)
def test_a_medium_is_a_standard_content_block(scripted: Scripted, name: str, kind: str, mime: str, later: bool) -> None:
    content = b"\x00\xffmedium" * 10
    message = shown(scripted, f"/{name}", content, later=later)
    told, block = message.content_blocks
    assert told == {"type": "text", "text": f"/{name}: {mime}, 80 bytes"}
    named = {"filename": name} if kind == "file" else {}
    assert block == {"type": kind, "base64": base64.b64encode(content).decode(), "mime_type": mime, **named}
    assert (message.name, message.tool_call_id, message.status) == ("read_file", "a1", "success")


def test_other_binary_files_are_described_and_not_shown(scripted: Scripted) -> None:
    assert shown(scripted, "/a.bin", b"\x00\x01").text.startswith("[/a.bin is binary, 2 bytes, and not shown")


def test_a_medium_that_is_too_large_is_an_error_that_says_how_large_it_may_be(scripted: Scripted) -> None:
    cap = MEDIA_CAP["image"]
    assert len(shown(scripted, "/a.png", b"x" * cap).content_blocks) == 2
    message = shown(scripted, "/a.png", b"x" * (cap + 1))
    assert message.status == "error"
    assert f"{cap + 1} bytes, and at most {cap} of an image can be" in message.text


def test_an_empty_medium_is_empty(scripted: Scripted) -> None:
    assert shown(scripted, "/a.png", b"").text == "[/a.png is empty]"
