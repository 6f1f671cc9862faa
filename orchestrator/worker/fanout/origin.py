"""What the sandboxes of children are made from. See `Origin`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.worker.fanout.base import Base
from orchestrator.worker.fanout.merged import edits_of
from orchestrator.worker.fanout.source import Source
from orchestrator.worker.fanout.trial import apply_all
from sandboxes.providers.base import SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.sandbox import Sandbox
from sandboxes.workspace.merge import MergeResult


@dataclass(frozen=True)
class ForkOrigin:
    """The sandbox of the parent."""

    source: Source
    base: Base
    inputs: Path

    @property
    def provider(self) -> SandboxProvider:
        """See `Origin`."""
        return self.source.provider

    async def create(self, spec: SandboxSpec, labels: Mapping[str, str]) -> SandboxHandle:
        """See `Origin`."""
        return await self.source.create(spec, labels)

    async def prepare(self, sandbox: Sandbox) -> None:
        """A fork has all that it needs."""


@dataclass(frozen=True)
class MergedOrigin(ForkOrigin):
    """The sandbox of the parent with what was merged so far, and with files outside of the working directory."""

    result: MergeResult
    files: Mapping[str, bytes]
    """By absolute path."""

    async def prepare(self, sandbox: Sandbox) -> None:
        """See `Origin`. Raises `BaseChanged`."""
        await apply_all(sandbox, edits_of(self.result), self.result.contents, call_id="prepare")
        await sandbox.aupload_files(list(self.files.items()))
