"""What is told of the sandboxes of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

SandboxState = Literal["owned", "kept", "orphan"]


@dataclass(frozen=True)
class SandboxInfo:
    """A sandbox of a run."""

    id: str
    provider: str
    run_id: str
    attempt: int | None
    """The attempt that it was made for."""
    created_at: datetime | None
    expires_at: datetime | None
    """When it ends by itself, whoever keeps it."""
    state: SandboxState
    """`owned`: its run goes on. `kept`: its run does not need it, and somebody keeps it. `orphan`: it is about to be ended."""
    kept_until: datetime | None
    """Until when it stays after its run. Set while its run goes on, too."""


@dataclass(frozen=True)
class SandboxListing:
    """Sandboxes, the newest first."""

    items: Sequence[SandboxInfo]
    unreachable: Mapping[str, str]
    """Providers that could not be asked, and why: their sandboxes are missing here."""


@dataclass(frozen=True)
class Executed:
    """How a command in a sandbox ended, and what it printed. Secrets of the run are `***`."""

    exit_code: int
    """124 after a timeout."""
    stdout: str
    stderr: str
    timed_out: bool
    truncated: bool
    """Whether it printed more than what is told here."""
