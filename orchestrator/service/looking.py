"""One command in a sandbox for somebody who looks into it: bounded in time and in what it tells, and without secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.fields import MAX_TEXT
from orchestrator.redact import Redactor
from orchestrator.runs.sandboxes import Executed
from sandboxes.errors import FanfoldSandboxError
from sandboxes.sandbox import Command, CommandResult, CommandSpec, Sandbox

DEFAULT_EXEC_TIMEOUT = 60.0
"""Seconds."""
MAX_EXEC_TIMEOUT = 600.0
"""Seconds."""
GRACE = 15.0
"""Seconds that a sandbox may need to end a command that is out of time."""
MAX_OUTPUT = 1024 * 1024
"""Bytes that are told of each stream."""
MAX_TOLD = 500
"""Characters of a command that `begins` is told."""


async def execute(
    sandbox: Sandbox, command: str, *, timeout: float, secrets: Sequence[str], begins: Callable[[str], None]
) -> Executed:
    """Run a shell command; `secrets` are the variables of the sandbox whose values are not told.

    `begins` is told the beginning of the command, without secrets, before it is run.

    Raises `BadInput`, `InfrastructureError`, or an error of the `sandboxes` package.
    """
    _check(command, timeout)
    redactor = Redactor(await _values(sandbox, secrets))
    pipes = {"stdout": _Told(redactor), "stderr": _Told(redactor)}
    begins(redactor.text(command)[:MAX_TOLD])
    result = await _run(sandbox, CommandSpec(command, timeout=timeout), pipes)
    stdout, stderr = (pipes[name].close().decode(errors="replace") for name in ("stdout", "stderr"))
    truncated = result.lost > 0 or any(pipe.truncated for pipe in pipes.values())
    return Executed(result.exit_code, stdout, stderr, result.timed_out, truncated)


def _check(command: str, timeout: float) -> None:
    readable = command.encode(errors="replace") == command.encode(errors="surrogatepass")
    if not command.strip() or "\0" in command or len(command) > MAX_TEXT or not readable:
        raise BadInput(f"the command must be 1 to {MAX_TEXT} characters of UTF-8 without NUL")
    if not 0 < timeout <= MAX_EXEC_TIMEOUT:
        raise BadInput(f"the timeout must be more than 0 and at most {MAX_EXEC_TIMEOUT:.0f} seconds, not {timeout:g}")


class _Told:
    """One stream, as far as it is told. It is cut when its secrets are out of it: half a secret would be none to look for."""

    def __init__(self, redactor: Redactor) -> None:
        self._stream = redactor.stream()
        self._kept = bytearray()
        self.truncated = False

    def feed(self, data: bytes) -> None:
        """Take a piece."""
        self._keep(self._stream.feed(data))

    def close(self) -> bytes:
        """All of it."""
        self._keep(self._stream.close())
        return bytes(self._kept)

    def _keep(self, data: bytes) -> None:
        room = MAX_OUTPUT - len(self._kept)
        self._kept += data[:room]
        self.truncated |= len(data) > room


async def _values(sandbox: Sandbox, names: Sequence[str]) -> list[str]:
    """The values of these variables in the sandbox. The run itself may have ended, and nobody else knows them then."""
    if not names:
        return []
    script = "printf '%s\\0' " + " ".join(f'"${{{name}-}}"' for name in names)
    pipe = _Told(Redactor([]))
    result = await _run(sandbox, CommandSpec(script, timeout=GRACE), {"stdout": pipe, "stderr": _Told(Redactor([]))})
    values = pipe.close().decode(errors="surrogateescape").split("\0")[:-1]
    if result.exit_code != 0 or len(values) != len(names):
        raise InfrastructureError("the run's secrets cannot be told apart in this sandbox, so nothing is shown of it")
    return values


async def _run(sandbox: Sandbox, spec: CommandSpec, pipes: dict[str, _Told]) -> CommandResult:
    assert spec.timeout is not None
    process: Command | None = None
    try:
        async with asyncio.timeout(spec.timeout + GRACE):
            process = await sandbox.start(spec)
            async for chunk in process.output():
                pipes[chunk.stream].feed(chunk.data)
            return await process.wait()
    except BaseException:
        if process is not None:
            with suppress(FanfoldSandboxError):  # it is gone with its sandbox
                await process.kill()
        raise
