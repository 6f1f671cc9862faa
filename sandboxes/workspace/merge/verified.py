"""A merge that passes a check: children without whom it does are found by halves, as a merge queue finds them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sandboxes.errors import InvalidSpec
from sandboxes.workspace.merge.fold import merge
from sandboxes.workspace.merge.values import Child, Conflict, Contents, MergeResult
from sandboxes.workspace.mergepolicy import Policy
from sandboxes.workspace.tree import BaseTree

CHECKS: Final = 200
"""Checks that one merge may take."""

Reason = Literal["check", "conflict", "undecided"]
"""Why a child was left out.

- check: with it, the check failed. conflict: it did not fit to those before it, and no policy settled that.
- undecided: as many checks as are allowed had been made.
"""


@dataclass(frozen=True, slots=True)
class Checked:
    """How a check of a merged tree ended."""

    ok: bool
    output: str = ""
    exit_code: int | None = None


Check = Callable[[MergeResult], Awaitable[Checked]]
"""Tells whether a merged tree is good. It must say the same of the same tree, and is asked about no tree twice."""
Finish = Callable[[MergeResult], Awaitable[MergeResult]]
"""Settles what no merge can: it makes files anew, or has somebody asked."""


@dataclass(frozen=True)
class LeftOut:
    """A child whose changes are nowhere in the result, and what happened when they were merged after those before it."""

    name: str
    reason: Reason
    output: str
    """What the check said. Empty for another reason."""
    exit_code: int | None
    conflicts: tuple[Conflict, ...]
    """Those that nothing settled."""
    contents: Contents
    """Of all nodes in the conflicts."""

    @property
    def why(self) -> str:
        """The reason, as the end of a sentence."""
        if self.reason == "undecided":
            return "whether it passes the check was not decided within the checks that are allowed"
        if self.reason == "conflict":
            return "it does not fit to those before it"
        return "with it, the check failed" + ("" if self.exit_code is None else f" (exit code {self.exit_code})")


@dataclass(frozen=True)
class Verified:
    """What of the children's work can be had together."""

    result: MergeResult
    """The merge of those who were not left out. It passed the check, unless they are none."""
    left_out: tuple[LeftOut, ...]
    """In task order."""
    checks: int
    """How often the check was made."""
    checked: Checked | None
    """How the check of `result` ended; None when it was not made."""

    @property
    def base_fails(self) -> bool:
        """Whether nobody could be merged, and the base fails the check without anybody's changes, too."""
        return self.checked is not None and not self.checked.ok


async def verified(
    base: BaseTree,
    children: Sequence[Child],
    policy: Policy,
    check: Check,
    *,
    finish: Finish | None = None,
    max_checks: int = CHECKS,
) -> Verified:
    """Merge as many `children` as pass the `check` together. What has conflicts that nothing settled fails without being asked.

    All are tried at once; of those that fail together, the first half is tried, and then the second on top of what is good.
    Who failed is tried once more when others were merged after it. So the result is maximal: of those left out (but for those
    who are undecided, or were not tried again, because `max_checks` was reached) nobody could be added alone. It is not the
    largest of all subsets that pass: of two who only fail together, the one that comes first in task order is kept.
    Each merge goes through `finish` before it is looked at. Raises as `merge`, `check` and `finish`.
    """
    if max_checks < 1:
        raise InvalidSpec(f"a verified merge with max_checks={max_checks} could check nothing: allow 1 or more")
    search = _Search(base, children, policy, check, finish or _as_it_is, max_checks)
    await search.accept(range(len(children)))
    await search.try_again()
    return await search.end()


@dataclass(frozen=True)
class _Tried:
    """What came of one set of children. `checked` is None when its conflicts are enough to refuse it."""

    checked: Checked | None
    conflicts: tuple[Conflict, ...]
    contents: Contents

    @property
    def ok(self) -> bool:
        return self.checked is not None and self.checked.ok


class _Search:
    """Who is good so far, and what was tried. Children are known by their place in task order."""

    def __init__(
        self, base: BaseTree, children: Sequence[Child], policy: Policy, check: Check, finish: Finish, max_checks: int
    ) -> None:
        self._base, self._children, self._policy, self._check, self._max_checks = base, children, policy, check, max_checks
        self._finish = finish
        self._tried: dict[frozenset[int], _Tried | None] = {}
        self._checked: dict[tuple[str, frozenset[str]], Checked] = {}
        """By the id of the tree, and the empty folders that it does not tell: many a child changed nothing."""
        self._good: frozenset[int] = frozenset()
        self._result: MergeResult | None = None
        """Of those who are good."""
        self._left_out: dict[int, LeftOut] = {}

    async def accept(self, group: range) -> None:
        """Add to those who are good as many of a group as can be; they come after them in task order."""
        if not group:
            return
        tried = await self._try(self._good.union(group))
        if tried is None or (len(group) == 1 and not tried.ok):
            self._left_out.update((at, _left_out(self._children[at].name, tried, self._base.store)) for at in group)
        elif not tried.ok:
            half = (len(group) + 1) // 2
            await self.accept(group[:half])
            await self.accept(group[half:])

    async def try_again(self) -> None:
        """Add whoever failed only because of what another one brought after it."""
        before = None
        while before != self._good:
            before = self._good
            for at in [at for at, one in sorted(self._left_out.items()) if one.reason != "undecided"]:
                tried = await self._try(self._good | {at})
                if tried is not None and tried.ok:
                    del self._left_out[at]

    async def end(self) -> Verified:
        """What came of it."""
        tried = await self._try(self._good)
        result = self._result or await self._merge(self._good)
        left_out = tuple(one for _, one in sorted(self._left_out.items()))
        return Verified(result, left_out, len(self._checked), tried.checked if tried else None)

    async def _try(self, wanted: frozenset[int]) -> _Tried | None:
        """What comes of a set; None when it would need one check too many. Those who pass are the good ones from then on."""
        if wanted not in self._tried:
            self._tried[wanted] = await self._judge(wanted)
        return self._tried[wanted]

    async def _judge(self, wanted: frozenset[int]) -> _Tried | None:
        result = await self._merge(wanted)
        open_conflicts = tuple(conflict for conflict in result.conflicts if not conflict.settled)
        if open_conflicts:
            return _Tried(None, open_conflicts, result.contents)
        checked = await self._ask(result)
        if checked is None:
            return None
        if checked.ok:
            self._good, self._result = wanted, result
        return _Tried(checked, (), self._base.store)

    async def _ask(self, result: MergeResult) -> Checked | None:
        tree = result.tree
        known_as = (await asyncio.to_thread(lambda: tree.id), frozenset(tree.entries.keys() - tree.files.keys()))
        if known_as not in self._checked:
            if len(self._checked) >= self._max_checks:
                return None
            self._checked[known_as] = await self._check(result)
        return self._checked[known_as]

    async def _merge(self, wanted: frozenset[int]) -> MergeResult:
        children = [self._children[at] for at in sorted(wanted)]
        return await self._finish(await asyncio.to_thread(merge, self._base, children, self._policy))


async def _as_it_is(result: MergeResult) -> MergeResult:
    return result


def _left_out(name: str, tried: _Tried | None, store: Contents) -> LeftOut:
    if tried is None:
        return LeftOut(name, "undecided", "", None, (), store)
    if tried.checked is None:
        return LeftOut(name, "conflict", "", None, tried.conflicts, tried.contents)
    return LeftOut(name, "check", tried.checked.output, tried.checked.exit_code, (), tried.contents)
