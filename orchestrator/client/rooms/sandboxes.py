"""Sandboxes of runs: looking at them, keeping them, running commands in them, ending them."""

from __future__ import annotations

from orchestrator.client.caller import Caller, at, encoded
from orchestrator.client.driving import Blocking, blocking
from orchestrator.client.models import Executed, Sandbox, SandboxList
from orchestrator.client.transport import Ask

DEFAULT_EXEC_TIMEOUT = 60.0
"""Seconds for a command in a sandbox."""
EXEC_MARGIN = 60.0
"""Seconds that the answer may come later than the command may take: the sandbox is attached to first."""


class AsyncSandboxes:
    """Sandboxes of the key's tenant, as far as the server reaches their providers."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(self) -> SandboxList:
        """All of them, the newest first."""
        return await self._caller.get(SandboxList, "sandboxes")

    async def get(self, sandbox_id: str) -> Sandbox:
        """The sandbox as it is now."""
        return await self._caller.get(Sandbox, "sandboxes", sandbox_id)

    async def destroy(self, sandbox_id: str, *, force: bool = False) -> None:
        """End a sandbox. Raises `Conflict` while its run goes on, unless `force`: the run loses it then."""
        await self._caller.delete("sandboxes", sandbox_id, params={"force": force})

    async def keep(self, sandbox_id: str, seconds: float) -> Sandbox:
        """Have a sandbox stay for so long from now, also when its run has ended."""
        return await self._caller.post(Sandbox, "sandboxes", sandbox_id, "keep", body={"seconds": seconds}, repeatable=True)

    async def exec(self, sandbox_id: str, command: str, *, timeout: float = DEFAULT_EXEC_TIMEOUT) -> Executed:
        """Run a shell command, for at most `timeout` seconds. The key needs `sandboxes:exec`. It is asked for once."""
        body = encoded({"command": command, "timeout": timeout})
        headers = {"Content-Type": "application/json"}
        ask = Ask("POST", at("sandboxes", sandbox_id, "exec"), (), headers, body, patience=timeout + EXEC_MARGIN)
        return self._caller.parsed(Executed, await self._caller.ask(ask))


class Sandboxes(Blocking[AsyncSandboxes]):
    """See `AsyncSandboxes`."""

    list = blocking(AsyncSandboxes.list)
    get = blocking(AsyncSandboxes.get)
    destroy = blocking(AsyncSandboxes.destroy)
    keep = blocking(AsyncSandboxes.keep)
    exec = blocking(AsyncSandboxes.exec)
