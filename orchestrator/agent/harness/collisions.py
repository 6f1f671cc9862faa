"""Calls of one answer that change the same place. They run at the same time, so one would undo the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from sandboxes.toolbox.helper import text

CHANGING = frozenset({"write_file", "edit_file", "delete"})
"""Tools that change what is at their `file_path`."""


def collision(request: ToolCallRequest, workdir: Callable[[], str]) -> str | None:
    """Why this call cannot be made beside one that stands before it in its answer; None when it can.

    The first of them is made, whatever order they are run in. `workdir` tells where relative paths begin.
    """
    earlier = [call for call in _before(request) if call["name"] in CHANGING]
    if request.tool_call["name"] not in CHANGING or not earlier:
        return None
    begin = workdir()
    place = _place(request.tool_call, begin)
    if place is None or not any(_overlap(place, _place(call, begin)) for call in earlier):
        return None
    again = f"wait for its result, then call {request.tool_call['name']}"
    return f"Error: another call of the same answer changes '{place}': {again}"


def _before(request: ToolCallRequest) -> list[Mapping[str, Any]]:
    """The calls that stand before this one in its answer."""
    wanted = request.tool_call["id"]
    for message in reversed(request.state["messages"]):
        if isinstance(message, AIMessage):
            ids = [call["id"] for call in message.tool_calls]
            return list(message.tool_calls[: ids.index(wanted)]) if wanted in ids else []
    return []


def _place(call: Mapping[str, Any], workdir: str) -> str | None:
    """The absolute path that a call is about; None when it is no path, and the call will be refused for that."""
    try:
        found: str = text.absolute(str(call["args"].get("file_path", "")), workdir)
    except text.Refused:
        return None
    return found


def _overlap(one: str, other: str | None) -> bool:
    """Whether these are the same place, or one lies in the other."""
    return other is not None and (f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/"))
