"""Running commands in a container through the engine: streams for the helper, whole runs for the plain-exec transport."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from docker.errors import APIError, NotFound

from sandboxes.errors import ProtocolError, SandboxError, SandboxGone, SandboxNotFound, SandboxTimeout
from sandboxes.providers.docker.engine import Engine
from sandboxes.providers.docker.stream import Demultiplexer, ExecStream, start_exec
from sandboxes.toolbox.link import Link
from sandboxes.toolbox.shell_exec import ExecResult

_STEP = 0.01
_CONFLICT = 409


class ContainerExec:
    """Commands in one container. See `sandboxes.toolbox.shell_exec.Exec`."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container

    async def open(self, argv: Sequence[str]) -> ExecStream:
        """Start a command; its streams. Raises `SandboxNotFound`, or `SandboxGone` with the reason."""
        return await self._engine.run("start a command in the sandbox", self._start, list(argv))

    def _start(self, argv: list[str]) -> ExecStream:
        api = self._engine.api
        try:
            return start_exec(api, self._container, argv)
        except APIError as exc:
            if exc.status_code in (404, _CONFLICT):
                raise_if_ended(api, self._container)
            raise

    async def check(self) -> None:
        """Raise `SandboxNotFound` or `SandboxGone` when the container does not run."""
        await self._engine.run("look at the sandbox", lambda: raise_if_ended(self._engine.api, self._container))

    async def __call__(self, argv: Sequence[str], stdin: bytes = b"", *, deadline: float, cap: int) -> ExecResult:
        """See `Exec`."""
        try:
            async with asyncio.timeout(deadline):
                return await self._finish(await self.open(argv), stdin, cap)
        except TimeoutError as exc:
            raise SandboxTimeout(f"the sandbox did not finish {argv[0]} within {deadline:g} s") from exc

    async def _finish(self, stream: ExecStream, stdin: bytes, cap: int) -> ExecResult:
        output, out = Demultiplexer(), bytearray()
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def received(data: memoryview) -> None:
            for piece in output.stdout(data):
                out.extend(piece[: cap + 1 - len(out)])
            if len(out) > cap and not ended.done():
                ended.set_exception(ProtocolError(f"the sandbox sent more than the {cap} bytes that it was asked for"))

        link = Link(stream.sock, received, lambda _: None if ended.done() else ended.set_result(None), early=stream.early)
        try:
            with contextlib.suppress(OSError):
                link.send([stdin])
                link.finish()
            await ended
        finally:
            link.close()
        return ExecResult(await self._exit_code(stream.exec_id), bytes(out), output.stderr)

    async def _exit_code(self, exec_id: str) -> int:
        """Its exit code. The stream may end a moment before the engine has it."""
        while True:
            told = await self._engine.run("tell an exit code", self._engine.api.exec_inspect, exec_id)
            if not told.get("Running") and told.get("ExitCode") is not None:
                return int(told["ExitCode"])
            await self.check()
            await asyncio.sleep(_STEP)


def raise_if_ended(api: Any, container: str) -> None:
    """Raise `SandboxNotFound`, or `SandboxGone` with the reason; nothing when the container runs (blocking)."""
    try:
        state = api.inspect_container(container)["State"]
    except NotFound as exc:
        raise SandboxNotFound(f"no sandbox {container} is on the Docker engine: it was destroyed, or never was") from exc
    if state.get("Paused"):
        raise SandboxError(f"sandbox {container} is paused: `docker unpause {container}` lets it go on")
    if not state.get("Running"):
        raise SandboxGone(f"sandbox {container} has ended: {_why(state)}")


def _why(state: dict[str, Any]) -> str:
    code = state.get("ExitCode")
    if state.get("OOMKilled"):
        return "it was killed for using more memory than its limit"
    if state.get("Status") == "created":
        return "it was made but never started"
    if code == 0:
        return "its lifetime or its idle limit was over"
    return f"its first process was killed, or failed (exit code {code}{', ' + state['Error'] if state.get('Error') else ''})"
