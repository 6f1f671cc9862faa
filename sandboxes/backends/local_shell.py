"""Files on this machine's disk, and commands on this machine."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ClassVar

from sandboxes import protocol as p
from sandboxes.backends.disk.hostcommand import CANNOT_START, HostCommand
from sandboxes.backends.filesystem import FilesystemBackend


class LocalShellBackend(FilesystemBackend, p.SandboxBackendProtocol):
    """A `FilesystemBackend` with `execute`, which runs commands directly on this machine: there is no sandbox.

    A command has all rights of this process: it reads and changes every file, `virtual_mode` or not, reaches the network and
    takes what CPU, memory and disk it wants. It is for a developer's own machine and for CI without secrets, with an agent that
    is trusted or a human who approves each command; never for a server, other people's input or untrusted code. `isolated` says
    so to whoever has to refuse it.

    A command runs by `sh -c` in `root_dir`, without input, in a session of its own. After `timeout` seconds (its own, or this
    one) it is killed with all that it started, and so it is when `aexecute` is cancelled. Of its output at most
    `max_output_bytes` are kept, half from the head and half from the tail. Its environment is `env` and, with `inherit_env`,
    this process's own below that. Without it, PATH alone is taken over, unless `env` has one: programs are found where a
    user expects, and no secret gets through. One more variable, FANFOLD_CALL, marks what belongs to the command.
    """

    isolated: ClassVar[bool] = False
    """Whether commands are kept from this machine. A run refuses a backend that says no, unless it was allowed explicitly."""

    def __init__(
        self,
        root_dir: str | os.PathLike[str] | None = None,
        *,
        virtual_mode: bool = False,
        timeout: float = 120,
        max_output_bytes: int = 100_000,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = False,
        max_file_size_mb: float = 10,
    ) -> None:
        super().__init__(root_dir, virtual_mode, max_file_size_mb)
        if timeout <= 0 or max_output_bytes <= 0:
            raise ValueError(f"timeout ({timeout}) and max_output_bytes ({max_output_bytes}) must be more than 0")
        self.timeout = timeout
        self.max_output_bytes = max_output_bytes
        path = os.environ.get("PATH", os.defpath)
        self.env = {**(os.environ if inherit_env else {"PATH": path}), **(env or {})}
        self._id = f"local-shell-{secrets.token_hex(6)}"

    @property
    def id(self) -> str:
        """See the protocol."""
        return self._id

    def execute(self, command: str, *, timeout: float | None = None) -> p.ExecuteResponse:
        """See the protocol. A command that cannot be started is an answer with exit code 126."""
        seconds = self.timeout if timeout is None else timeout
        return _refused(seconds) or self._command(command).run(seconds)

    async def aexecute(self, command: str, *, timeout: float | None = None) -> p.ExecuteResponse:
        """Async form of `execute`. Cancelling it kills the command."""
        seconds = self.timeout if timeout is None else timeout
        if refused := _refused(seconds):
            return refused
        running = self._command(command)
        # A thread of its own: commands are long, and would hold up all else that runs in the loop's few.
        own = ThreadPoolExecutor(1, thread_name_prefix="fanfold-command")
        answer = asyncio.get_running_loop().run_in_executor(own, running.run, seconds)
        own.shutdown(wait=False)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.to_thread(running.kill))
            with suppress(Exception):
                await asyncio.shield(answer)
            raise

    def _command(self, command: str) -> HostCommand:
        return HostCommand(command, cwd=str(self.root_dir), env=self.env, output_cap=self.max_output_bytes)


def _refused(seconds: float) -> p.ExecuteResponse | None:
    if seconds > 0:
        return None
    return p.ExecuteResponse(f"Error: timeout must be more than 0 seconds, not {seconds}", CANNOT_START)
