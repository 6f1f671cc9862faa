"""The merge of what the children of a fan-out changed, with what is to be made anew and what is to be checked."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Sequence
from pathlib import Path

from orchestrator.runs.family import CHANGES, Family
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.fanout.asking import Asking
from orchestrator.worker.fanout.base import FetchingStore
from orchestrator.worker.fanout.commands import run_command
from orchestrator.worker.fanout.merged import Merged, edits_of, settled
from orchestrator.worker.fanout.order import ChildEnd, FanOutOrder
from orchestrator.worker.fanout.origin import ForkOrigin
from orchestrator.worker.fanout.trial import Trials
from sandboxes.sandbox import Sandbox
from sandboxes.workspace.merge import Child, MergeResult, merge
from sandboxes.workspace.merge.report import Verification
from sandboxes.workspace.merge.verified import Checked, verified
from sandboxes.workspace.packed import read_pack
from sandboxes.workspace.tree import Node

COMMAND_TIMEOUT = 600.0
"""Seconds for a command that makes a file anew."""


class Folding:
    """Merges the work of the children of one fan-out. The run's sandbox goes on meanwhile, but for the trials."""

    def __init__(
        self, work: Assignment, order: FanOutOrder, sandbox: Sandbox, trials: Trials, fork: ForkOrigin, scratch: Path
    ) -> None:
        """`fork` is what the children were made from; `scratch` is a folder of nobody else's, to be made."""
        self._work = work
        self._order = order
        self._trials = trials
        self._fork = fork
        self._scratch = scratch
        self._store = FetchingStore.over(scratch / "base", fork.base, sandbox)
        self.tree = fork.base.tree(self._store)
        """The base, with its contents."""
        self._asking: Asking | None = None

    async def merged(self, ends: Sequence[ChildEnd], children: Sequence[Child]) -> Merged:
        """What these children changed together, who ended so. Raises `BaseChanged` when the workspace is not what it was."""
        self._asking = Asking(self._work, self._order, self._fork, ends, self._store, self._child)
        policy, check = self._order.merge.to_policy(), self._order.merge.verify
        if check is None:
            return Merged(await self._finished(await asyncio.to_thread(merge, self.tree, children, policy)))
        found = await verified(self.tree, children, policy, self._check, finish=self._finished)
        return Merged(found.result, found.left_out, Verification(check, found.checked, found.checks))

    async def children(self, ends: Sequence[ChildEnd]) -> dict[str, Child]:
        """What each child changed."""
        return {end.name: await asyncio.to_thread(self._child, end) for end in ends}

    def _child(self, end: ChildEnd) -> Child:
        sha256 = Family(self._work.store.engine).work(end.run.id, CHANGES)
        if sha256 is None:  # it had no sandbox, or did not come so far
            return Child(end.name, {}, self._store)
        place = self._scratch / end.run.id
        place.mkdir(parents=True)
        with (place / "changes").open("wb") as file:
            for piece in self._work.artifacts.pieces(sha256):
                file.write(piece)
        packed = read_pack(place / "changes", place / "objects")
        return Child(end.name, packed.changes, packed.contents)

    async def _finished(self, result: MergeResult) -> MergeResult:
        """The result with what no merge can make: files that a command makes anew, and what an agent is asked about."""
        result = await self._made_anew(result)
        return await self._asking.settle(result) if self._asking is not None else result

    async def _made_anew(self, result: MergeResult) -> MergeResult:
        to_make = [one for one in result.conflicts if one.command is not None and not one.settled]
        if not to_make:
            return result
        made: dict[str, Node | None] = {}
        async with self._trials.of(edits_of(result), result.contents) as sandbox:
            for command in dict.fromkeys(str(one.command) for one in to_make):
                tried = await run_command(sandbox, command, COMMAND_TIMEOUT)
                if tried.exit_code != 0:
                    self._work.recorder.log("warning", f"`{command}` ended with {tried.exit_code}: {tried.output[-1000:]}")
                    continue
                made |= {one.path: await self._node(sandbox, one.path) for one in to_make if one.command == command}
        return settled(result, made)

    async def _node(self, sandbox: Sandbox, path: str) -> Node | None:
        """The file that a command has made; None when there is none."""
        pieces = sandbox.download_stream(posixpath.join(sandbox.workdir, path))
        try:
            content = b"".join([piece async for piece in pieces])
        except FileNotFoundError:
            return None
        return Node("100644", await asyncio.to_thread(self._store.put, content), len(content))

    async def _check(self, result: MergeResult) -> Checked:
        """Whether the tree passes the check, in a copy of the workspace."""
        check = self._order.merge.verify
        assert check is not None
        async with self._trials.of(edits_of(result), result.contents) as sandbox:
            tried = await run_command(sandbox, check, self._order.merge.verify_timeout)
        names = ", ".join(one.name for one in result.per_child) or "nobody"
        told = "passes" if tried.exit_code == 0 else f"ends with {tried.exit_code}"
        self._work.recorder.log("info", f"verify {told} with the work of {names}")
        return Checked(tried.exit_code == 0, self._work.recorder.redactor.text(tried.output), tried.exit_code)
