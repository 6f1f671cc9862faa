"""What is told of a fan-out: to the agent that asked for it, and to people, as artifacts of the run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.worker.collect import Collector
from orchestrator.worker.fanout.base import BaseChanged
from orchestrator.worker.fanout.merged import Merged
from orchestrator.worker.fanout.order import ChildEnd, Folded
from sandboxes.errors import PatchRefused
from sandboxes.workspace.merge import Child, Contents
from sandboxes.workspace.merge.display import conflict_files
from sandboxes.workspace.merge.report import Failed, MergeReport
from sandboxes.workspace.merge.summary import merge_summary
from sandboxes.workspace.patch import diff
from sandboxes.workspace.tree import BaseTree, Tree

FILES_CAP = 256
"""Files that show conflicts."""
BYTES_CAP = 1024 * 1024
"""Bytes of all of them together."""


def told(merged: Merged, ends: Sequence[ChildEnd], children: Mapping[str, Child]) -> Folded:
    """What came of a fan-out, once its plan is applied."""
    result, left_out = merged.result, merged.left_out
    shown = conflict_files(result, left_out, cap_bytes=BYTES_CAP, cap_files=FILES_CAP)
    files = {f"{name}/{path}": text.decode("utf-8", "replace") for name, of in shown.items() for path, text in of.items()}
    summaries = {
        end.name: merge_summary(result, left_out, end.name) if end.succeeded else _unmerged(children[end.name]) for end in ends
    }
    refused = result.refused
    folded = Folded(
        applied=True,
        merged=len(result.merged),
        conflicts=sum(not conflict.settled for conflict in result.conflicts),
        failed=tuple(end.name for end in ends if not end.succeeded),
        left_out=tuple(one.name for one in left_out),
        summaries=summaries,
        reports={end.name: end.report for end in ends},
        files=files,
    )
    return folded.refused("the policy allows no conflict at paths where there are some") if refused else folded


def unchanged(ends: Sequence[ChildEnd]) -> Folded:
    """What came of a fan-out of which nothing was merged."""
    return Folded(
        applied=False,
        merged=0,
        conflicts=0,
        failed=tuple(end.name for end in ends if not end.succeeded),
        left_out=(),
        summaries={end.name: "" for end in ends},
        reports={end.name: end.report for end in ends},
    )


def _unmerged(child: Child) -> str:
    if not child.changes:
        return "It changed nothing."
    return f"Nothing that it changed was merged: it is in the artifact {patch_name(child.name)} of the run."


def patch_name(child: str) -> str:
    """The artifact with what a child changed, where not all of that was merged."""
    return f"unmerged/{child}.patch"


async def keep_reports(
    collector: Collector, name: str, merged: Merged, ends: Sequence[ChildEnd], children: Mapping[str, Child]
) -> None:
    """Keep a report as `NAME.json` and `NAME.md`, and as a patch the work of each child that was not merged as it is."""
    failed = tuple(Failed(end.name, end.run.status.value, end.report) for end in ends if not end.succeeded)
    report = MergeReport(merged.result, merged.left_out, failed, merged.verification)
    await collector.keep_bytes(f"{name}.json", json.dumps(report.to_json(), indent=2).encode())
    await collector.keep_bytes(f"{name}.md", report.to_markdown().encode())
    unmerged = {*(one.name for one in failed), *(one.name for one in merged.left_out)}
    unmerged |= {conflict.children[-1] for conflict in merged.result.conflicts if not conflict.settled}
    unmerged |= children.keys() if merged.result.refused else set()
    base = merged.result.base
    assert isinstance(base, BaseTree)
    await keep_patches(collector, base, [child for child in children.values() if child.name in unmerged])


async def keep_patches(collector: Collector, base: BaseTree, children: Iterable[Child]) -> None:
    """Keep what these children changed as patches, those of them that changed something."""
    for child in (child for child in children if child.changes):
        if patch := await asyncio.to_thread(_patch, base, child):
            await collector.keep_bytes(patch_name(child.name), patch)


def _patch(base: BaseTree, child: Child) -> bytes:
    """What one child changed; empty for what no patch can carry, and for what the workspace does not have any more."""
    before = {path: node for path in child.changes if (node := base.files.get(path)) is not None}
    after = {path: node for path, node in child.changes.items() if node is not None}
    try:
        return diff(_Both(base.store, child.contents), Tree(before), Tree(Tree(after).files))
    except (PatchRefused, BaseChanged):
        return b""


@dataclass(frozen=True)
class _Both:
    """The contents of two stores."""

    one: Contents
    other: Contents

    def get(self, blob: str) -> bytes:
        try:
            return self.one.get(blob)
        except KeyError:
            return self.other.get(blob)
