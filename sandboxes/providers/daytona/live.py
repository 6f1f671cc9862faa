"""A sandbox that is there: its states, and one command by one request."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from daytona import AsyncDaytona, AsyncSandbox, DaytonaError, ExecuteResponse

from sandboxes.errors import FanfoldSandboxError, SandboxGone, SandboxNotFound, SandboxTimeout
from sandboxes.providers.daytona.account import Account

GRACE: Final = 5.0
"""Seconds beyond a command's deadline that the platform gets to end it."""
ENDING_LOOKS: Final = 6
"""How often a sandbox whose toolbox does not answer is looked at, before it is taken for alive."""
ENDING_PAUSE: Final = 0.25
"""Seconds between two looks."""
_ENDING: Final = (400, 404, 502, 503)
"""What the platform answers for a sandbox that is not there, or not any more."""
ALIVE: Final = ("started", "forking", "snapshotting")
"""States in which a sandbox answers."""
_WHY: Final = {
    "stopped": "it was stopped: it was idle for too long, or somebody stopped it",
    "stopping": "it is being stopped",
    "archived": "it was archived",
    "archiving": "it is being archived",
    "paused": "it is paused",
}


def own_folder(sandbox_id: str) -> str:
    """The folder in a sandbox that is ours. It carries the id: a fork brings its parent's along."""
    return f"/tmp/.{sandbox_id}"  # noqa: S108 - a path in the sandbox


def state_of(sandbox: AsyncSandbox) -> str:
    """Its state, as the platform calls it."""
    return "" if sandbox.state is None else sandbox.state.value


def running(sandbox: AsyncSandbox | None, name: str) -> AsyncSandbox:
    """The sandbox, when it runs. Raises `SandboxNotFound`, or `SandboxGone` with the reason."""
    if sandbox is None or state_of(sandbox) in ("destroyed", "destroying"):
        raise SandboxNotFound(f"no sandbox {name} is on Daytona: it was destroyed, or never was")
    state = state_of(sandbox)
    if state not in ALIVE:
        raise SandboxGone(f"sandbox {name} has ended: {_WHY.get(state, sandbox.error_reason or f'its state is {state!r}')}")
    return sandbox


async def run(
    account: Account, sandbox: AsyncSandbox, command: str, *, deadline: float, env: dict[str, str] | None = None
) -> ExecuteResponse:
    """Run a command by one request, which is never repeated. Raises `SandboxTimeout` and what `Account.run` does."""

    async def execute(_: AsyncDaytona) -> ExecuteResponse:
        return await sandbox.process.exec(command, env=env, timeout=math.ceil(deadline + GRACE))

    try:
        async with asyncio.timeout(deadline):
            return await account.run("run a command", execute, deadline=deadline + 2 * GRACE, again=False)
    except TimeoutError as exc:
        raise SandboxTimeout(f"the sandbox did not finish a command within {deadline:g} s") from exc
    except FanfoldSandboxError as exc:
        if isinstance(exc.__cause__, DaytonaError) and exc.__cause__.status_code in _ENDING:
            await raise_if_ending(account, sandbox.name)
        raise


async def raise_if_ending(account: Account, name: str) -> None:
    """Raise why a sandbox has ended, or is about to: the platform says so a moment after it has refused a request."""
    for _ in range(ENDING_LOOKS):
        await raise_if_ended(account, name)
        await asyncio.sleep(ENDING_PAUSE)


async def raise_if_ended(account: Account, name: str) -> AsyncSandbox:
    """The sandbox of this name, which runs. Raises `SandboxNotFound`, or `SandboxGone` with the reason."""
    return running(await account.find(name), name)
