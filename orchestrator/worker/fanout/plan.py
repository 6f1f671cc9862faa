"""What is to be done with the work of children, and what came of it once that is done. It is kept before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.files import RESERVED
from orchestrator.runs.models import Artifact
from orchestrator.worker.fanout.merged import edits_of
from orchestrator.worker.fanout.order import Folded
from sandboxes.sandbox import Edit
from sandboxes.workspace.merge import Contents, MergeResult
from sandboxes.workspace.packed import read_pack, write_plan


@dataclass(frozen=True)
class Plan:
    """Edits of the workspace, and what is told of them."""

    edits: Sequence[Edit]
    contents: Contents
    """Of what the edits bring."""
    folded: Folded

    @classmethod
    def keep(
        cls, result: MergeResult, folded: Folded, artifacts: ArtifactStore, run_id: str, key: str, file: Path
    ) -> tuple[Plan, Artifact]:
        """The plan that makes this result of its base, and what to record of it; `file` is a place for it on this machine."""
        edits = edits_of(result)
        changes = {edit.path: result.tree.entries.get(edit.path) for edit in edits}
        write_plan(file, result.base, changes, result.contents, folded.to_json())
        artifact = artifacts.keep_file(run_id, f"{RESERVED}{key}/plan", file)
        return cls(edits, result.contents, folded), artifact

    @classmethod
    def kept(cls, artifacts: ArtifactStore, sha256: str, folder: Path) -> Plan:
        """A plan that was kept; `folder` is a place for it on this machine. Raises `InfrastructureError` when it is gone."""
        folder.mkdir(parents=True)
        file = folder / "plan"
        with file.open("wb") as out:
            for piece in artifacts.pieces(sha256):
                out.write(piece)
        packed = read_pack(file, folder / "objects")
        edits = [Edit(path, packed.before.get(path), after) for path, after in packed.changes.items()]
        return cls(edits, packed.contents, Folded.from_json(packed.value))
