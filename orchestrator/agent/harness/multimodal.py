"""Images, audio, video and documents as the content blocks that models take."""

from __future__ import annotations

from typing import Any, Final

from langchain_core.tools import ToolException

from orchestrator.agent.render import shown_path
from sandboxes.mime import Medium, medium
from sandboxes.protocol import FileData

Blocks = list[dict[str, Any]]
"""langchain's standard content blocks."""

MEDIA_CAP: Final[dict[Medium, int]] = {
    "image": 5 * 1024 * 1024,
    "audio": 10 * 1024 * 1024,
    "video": 10 * 1024 * 1024,
    "document": 10 * 1024 * 1024,
}
"""Bytes of a file that is shown to a model: it goes along with every later request of the conversation."""

_BLOCK: Final[dict[Medium, str]] = {"image": "image", "audio": "audio", "video": "video", "document": "file"}
_KIND: Final[dict[Medium, str]] = {"image": "an image", "audio": "a sound", "video": "a video", "document": "a document"}


def blocks(path: str, data: FileData | None) -> Blocks | None:
    """What a model is shown of a file that was read whole as base64; None when its name is not that of a medium.

    Raises `ToolException` when it is too large to be shown.
    """
    kind = medium(path)
    if kind is None or data is None or data["encoding"] != "base64":
        return None
    size = len(data["content"]) // 4 * 3 - data["content"].count("=", -2)
    mime = data.get("mime_type", "application/octet-stream")
    if size > MEDIA_CAP[kind]:
        raise ToolException(
            f"Error: '{path}' is too large to be shown: {size} bytes, and at most {MEDIA_CAP[kind]} of {_KIND[kind]} can be. "
            "Make it smaller, or cut out the part that matters"
        )
    if not size:
        return None
    told = f"{shown_path(path)}: {mime}, {size} bytes"
    block: dict[str, Any] = {"type": _BLOCK[kind], "base64": data["content"], "mime_type": mime}
    if kind == "document":
        block["filename"] = path.rpartition("/")[2]
    return [{"type": "text", "text": told}, block]
