"""What the plain-exec transport needs of a platform: to run one short command and bring back what it printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ExecResult:
    """How a command went, all of its stdout, and the beginning of its stderr."""

    exit_code: int
    stdout: bytes
    stderr: str = ""


class Exec(Protocol):
    """Runs a command in one sandbox. The commands are ours: they are short, and their arguments are ASCII without NUL."""

    async def __call__(self, argv: Sequence[str], stdin: bytes = b"", *, deadline: float, cap: int) -> ExecResult:
        """Run `argv` with `stdin` and wait for its end, at most `deadline` seconds.

        Whether stdin ends after its last byte is up to the platform: commands count what they read. Raises
        `SandboxTimeout` after the deadline, `ProtocolError` when stdout has more than `cap` bytes, `SandboxGone` or
        `SandboxNotFound` when the sandbox is not there (any more), `ProviderUnavailable` when the platform is not.
        """
        ...
