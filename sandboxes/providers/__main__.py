"""What each provider can do on this machine, as JSON: `python -m sandboxes.providers [NAME...] [--try NAME] [--home DIR]`.

For programs that must not import providers (a broken SDK must not break them), and for people. With `--try` a sandbox is
really made and asked for an answer. The answer for each name is one of

    {"available": true, "capabilities": {...}, "notes": [...], "seconds": 0.08, "error": null}
    {"available": false, "capabilities": null, "notes": [], "seconds": null, "error": "why, and what to do"}

`seconds` is what making a sandbox and its first answer took; null without `--try`.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandboxes.errors import FanfoldSandboxError
from sandboxes.providers.base import SandboxProvider, SandboxSpec
from sandboxes.providers.registry import get_provider, provider_names

DEADLINE = 20.0
"""Seconds for each provider."""
CLEANUP_DEADLINE = 10.0
"""Seconds for destroying the sandbox that was tried."""


async def examine(provider: SandboxProvider, *, attempt: bool) -> dict[str, Any]:
    """What `provider` can do; with `attempt`, after it has given an answer from a sandbox."""
    capabilities = await provider.capabilities()
    found = dataclasses.asdict(capabilities)
    found |= {key: sorted(found[key]) for key in ("networks", "fork_scopes")}
    found["isolation"] = provider.isolation
    notes = list(found.pop("notes"))
    seconds = await first_answer(provider) if attempt else None
    return {"available": True, "capabilities": found, "notes": notes, "seconds": seconds, "error": None}


async def first_answer(provider: SandboxProvider) -> float:
    """Make a sandbox, run a command in it, destroy it. Seconds until the answer. Raises `FanfoldSandboxError`."""
    began = time.monotonic()
    handle = await provider.create(SandboxSpec(lifetime=60.0), {"fanfold.doctor": "1"})
    try:
        async with await provider.attach(handle) as sandbox:
            response = await sandbox.aexecute("echo fanfold", timeout=10)
        if response.exit_code != 0 or response.output.strip() != "fanfold":
            said = f"{response.output[:200]!r}, exit code {response.exit_code}"
            raise FanfoldSandboxError(f"a sandbox was made, but `echo fanfold` in it gave {said}")
        return round(time.monotonic() - began, 3)
    finally:
        async with asyncio.timeout(CLEANUP_DEADLINE):
            await provider.destroy(handle)


async def report(name: str, home: Path, *, attempt: bool, deadline: float) -> dict[str, Any]:
    """The answer for one name: it never raises."""
    try:
        async with asyncio.timeout(deadline):
            provider = get_provider(name, home=home)
            try:
                return await examine(provider, attempt=attempt)
            finally:
                await provider.aclose()
    except TimeoutError:
        error = f"no answer within {deadline:g} s"
    except FanfoldSandboxError as exc:
        error = str(exc)
    except Exception as exc:  # a provider of a third party, a broken SDK: the others are still reported
        error = f"{type(exc).__name__}: {exc}"
    return {"available": False, "capabilities": None, "notes": [], "seconds": None, "error": error}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 0 when every named provider is available."""
    parser = argparse.ArgumentParser(prog="python -m sandboxes.providers", description="What each provider can do here.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="providers; all that are installed when none is given")
    parser.add_argument("--try", dest="tried", action="append", default=[], metavar="NAME", help="make a sandbox with this one")
    parser.add_argument("--home", type=Path, required=True, metavar="DIR", help="folder of the providers that keep local state")
    parser.add_argument("--deadline", type=float, default=DEADLINE, metavar="SECONDS", help="for each provider")
    asked = parser.parse_args(arguments)

    async def all_reports() -> dict[str, Any]:
        names = asked.names or provider_names()
        return {
            name: await report(name, asked.home, attempt=name in asked.tried, deadline=asked.deadline) for name in names
        }

    reports = asyncio.run(all_reports())
    json.dump(reports, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0 if all(one["available"] for one in reports.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
