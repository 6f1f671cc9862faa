"""What a run leaves: a patch of its workspace, files by glob, and other artifacts. All of it comes from a sandbox."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import AsyncIterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import BadInput, TaskFailed
from orchestrator.permissions import below
from orchestrator.runs.artifacts import ArtifactStore, one_piece
from orchestrator.runs.files import RunFolder
from orchestrator.runs.models import Lease
from orchestrator.runs.spool import TooLarge
from orchestrator.runs.store import Store
from orchestrator.spec import RunSpec
from orchestrator.worker.recorder import Recorder
from orchestrator.worker.scratch import scratch
from sandboxes.errors import PatchRefused
from sandboxes.sandbox import Sandbox
from sandboxes.workspace.fetching import Files

if TYPE_CHECKING:
    from sandboxes.workspace.tree import BaseTree

PATCH_NAME = "patch.diff"
ARTIFACT_CAP = 512 * 1024 * 1024
"""Bytes of one artifact."""
RUN_CAP = 2 * 1024 * 1024 * 1024
"""Bytes of all artifacts of one attempt."""
FILES_CAP = 1000
"""Files that the globs of a run may bring."""


class Collector:
    """Keeps artifacts of one attempt.

    One that the sandbox does not give as it should becomes a warning in the run's log, never a silent gap. When the place of
    the artifacts fails, so does the attempt, with `InfrastructureError`.
    """

    def __init__(
        self, spec: RunSpec, folder: RunFolder, store: Store, artifacts: ArtifactStore, lease: Lease, recorder: Recorder
    ) -> None:
        self._spec = spec
        self._folder = folder
        self._store = store
        self._artifacts = artifacts
        self._lease = lease
        self._recorder = recorder
        self._left = RUN_CAP

    async def keep(self, name: str, content: AsyncIterable[bytes]) -> None:
        """Keep content as an artifact, without secrets, also in its name."""
        name = self._recorder.redactor.text(name)
        limit = min(ARTIFACT_CAP, self._left)
        try:
            redacted = self._recorder.redactor.pieces(content)
            artifact = await self._artifacts.keep(self._lease.run_id, name, redacted, limit=limit)
        except (TooLarge, BadInput) as exc:
            self._recorder.log("warning", str(exc))
            return
        except OSError as exc:
            self._recorder.log("warning", f"artifact {name!r} cannot be had: {exc}")
            return
        self._left -= artifact.size
        await self._recorder.flush()
        await asyncio.to_thread(self._store.add_artifact, self._lease, artifact)

    async def keep_bytes(self, name: str, content: bytes) -> None:
        """Keep content that is at hand."""
        await self.keep(name, one_piece(content))

    async def collect(self, sandbox: Sandbox) -> None:
        """Keep what the spec's `outputs` name. Raises `TaskFailed` when the patch cannot be made."""
        for pattern in self._spec.outputs.files:
            await self._keep_matches(sandbox, pattern)
        if self._spec.wants_patch:
            await self._keep_patch(sandbox)

    async def _keep_matches(self, sandbox: Sandbox, pattern: str) -> None:
        result = await sandbox.aglob(pattern, sandbox.workdir)
        paths = sorted({match["path"] for match in result.matches or [] if not match.get("is_dir")})
        inside = [path for path in paths if _below(path, sandbox.workdir)]
        if result.error or not inside:
            self._recorder.log("warning", f"outputs.files: '{pattern}' {result.error or 'matches no file'}")
        for path in inside[:FILES_CAP]:
            await self.keep("files/" + posixpath.relpath(path, sandbox.workdir), sandbox.download_stream(path))
        if len(inside) > FILES_CAP:
            self._recorder.log("warning", f"outputs.files: '{pattern}' matches {len(inside)} files; {FILES_CAP} were kept")

    async def _keep_patch(self, sandbox: Sandbox) -> None:
        from sandboxes.workspace.patch import make_patch  # it imports a Git library

        try:
            async with scratch(self._folder, self._lease, "objects") as place:
                base = await asyncio.to_thread(self._base, place / "base")
                entries = await sandbox.manifest(sandbox.workdir, exclude=tuple(base.exclude))
                shown = [entry for entry in entries if not self._is_hidden(entry.path)]
                patch = await make_patch(base, shown, Files(sandbox, sandbox.workdir))
        except PatchRefused as exc:
            raise TaskFailed(f"no patch could be made: {exc}") from exc
        if patch:
            await self.keep_bytes(PATCH_NAME, patch)
        else:
            self._recorder.log("info", "the workspace is as it was: there is no patch")

    def _base(self, place: Path) -> BaseTree:
        from sandboxes.workspace.tree import DEFAULT_EXCLUDE, BaseTree

        excluded = {*DEFAULT_EXCLUDE, *(self._spec.inputs.exclude if self._spec.inputs else ())}
        if not self._folder.input_tar.exists():
            return BaseTree.empty(place, exclude=excluded)
        base = BaseTree.from_tar(self._folder.input_tar, place, exclude=excluded)
        return replace(base, entries={path: node for path, node in base.entries.items() if not self._is_hidden(path)})

    def _is_hidden(self, path: str) -> bool:
        """Whether this was kept out of the sandbox: what the sandbox has there says nothing."""
        return any(below(path, hidden) for hidden in self._spec.hidden)


def _below(path: str, folder: str) -> bool:
    return posixpath.normpath(path).startswith(folder.rstrip("/") + "/")
