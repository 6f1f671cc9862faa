"""What a child run and its worker have to do with its parent: where its sandbox comes from, and who executes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from orchestrator.runs.models import Lease, Run
from orchestrator.worker.watch import StopReason
from sandboxes.providers.base import SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.sandbox import Sandbox

if TYPE_CHECKING:
    from orchestrator.worker.fanout.base import Base


class Origin(Protocol):
    """What the sandbox of a child is made from."""

    @property
    def provider(self) -> SandboxProvider:
        """Whose sandbox the parent has, and the child gets. It belongs to the parent."""
        ...

    @property
    def inputs(self) -> Path:
        """The archive from which places that permissions close are filled; it need not exist."""
        ...

    @property
    def base(self) -> Base:
        """What was in the parent's working directory."""
        ...

    async def create(self, spec: SandboxSpec, labels: Mapping[str, str]) -> SandboxHandle:
        """Make a sandbox with the parent's files. Raises an error of the `sandboxes` package."""
        ...

    async def prepare(self, sandbox: Sandbox) -> None:
        """Change in it what the child is to find otherwise than its parent has it, before anything runs there."""
        ...


class Executor(Protocol):
    """Executes the children of runs, in the process that executes these. Used on its event loop."""

    async def grant(self, run_id: str) -> Lease | None:
        """Claim a child, if there is room for it now."""
        ...

    async def execute_child(self, run: Run, lease: Lease, origin: Origin) -> None:
        """Work on a child until it has ended, or is left: the record says which."""
        ...

    def stop_child(self, lease: Lease, reason: StopReason) -> None:
        """Have a child stop that is being executed under this lease; nothing happens when it is not."""
        ...
