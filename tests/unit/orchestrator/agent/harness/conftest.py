"""Agents with scripted models, for tests of the harness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel


@pytest.fixture
def scripted() -> Callable[..., ScriptedChatModel]:
    """A model that calls tools turn by turn, `[(name, arguments), ...]` each, and then says that it is done.

    The ids of the calls are `a1`, `a2` for the first turn, `b1` for the second.
    """

    def scripted(*turns: list[tuple[str, dict[str, Any]]]) -> ScriptedChatModel:
        asked = []
        for letter, calls in zip("abcdefgh", turns, strict=False):
            called = [{"id": f"{letter}{n}", "name": name, "args": args} for n, (name, args) in enumerate(calls, start=1)]
            asked.append({"tool_calls": called})
        script = yaml.safe_dump({"turns": [*asked, {"text": "done"}]}, allow_unicode=True)
        return ScriptedChatModel(script=load_script(script.encode(), "script.yaml"))

    return scripted
