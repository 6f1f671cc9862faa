"""What `python -m sandboxes.providers` says of each provider: always an answer, never an exception."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandboxes.providers import __main__ as providers_main


class _Provider:
    """A provider that answers as it is told."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def capabilities(self) -> Any:
        return await self._answer()

    async def aclose(self) -> None:
        return None


async def _never() -> None:
    await asyncio.Event().wait()


async def _broken() -> None:
    raise ZeroDivisionError("in an SDK")


@pytest.mark.parametrize(
    ("answer", "error"), [(_never, "no answer within 0.05 s"), (_broken, "ZeroDivisionError: in an SDK")]
)
async def test_a_provider_that_hangs_or_breaks_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: Any, error: str
) -> None:
    monkeypatch.setattr(providers_main, "get_provider", lambda name, home: _Provider(answer))

    found = await providers_main.report("some", tmp_path, attempt=False, deadline=0.05)

    assert (found["available"], found["error"]) == (False, error)


def test_an_unknown_provider_is_reported_beside_a_real_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sandboxes.providers", "local", "nowhere", "--home", str(tmp_path), "--try", "local"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    reports = json.loads(done.stdout)
    assert done.returncode == 1
    assert reports["local"]["available"] is True
    assert reports["local"]["seconds"] > 0
    assert "nowhere" in reports["nowhere"]["error"]
    assert not list((tmp_path / "sandboxes").glob("sbx-*"))
