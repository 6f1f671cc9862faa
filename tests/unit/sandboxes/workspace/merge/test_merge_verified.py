"""Which children a verified merge keeps, whom it leaves out and why, and how often it asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.errors import InvalidSpec
from sandboxes.workspace.merge import Child, MergeResult, Policy
from sandboxes.workspace.merge.verified import Checked, Verified, verified
from tests.unit.sandboxes.workspace.merge.worlds import World, always
from tests.unit.sandboxes.workspace.trees import FILE, Files

Good = Callable[[frozenset[str]], bool]


@dataclass
class Tests:
    """A check that sees which children's files are there, and remembers what it was asked about."""

    __test__ = False
    good: Good
    asked: list[frozenset[str]] = field(default_factory=list)

    async def __call__(self, result: MergeResult) -> Checked:
        present = frozenset(path for path in result.tree.entries if path.startswith("c"))
        self.asked.append(present)
        ok = self.good(present)
        return Checked(ok, "passed" if ok else f"failed with {sorted(present)}", 0 if ok else 1)


def without(*culprits: str) -> Good:
    return lambda present: present.isdisjoint(culprits)


class Team:
    """Children named c00, c01, ..., each of whom adds a file of its own name; some write the same shared file as well."""

    def __init__(self, world: World, count: int, shared: Iterable[int] = (), idle: Iterable[int] = ()) -> None:
        self.base = world.base({b"f": (FILE, b"base\n")})
        self.names = [f"c{number:02}" for number in range(count)]
        self.children = []
        for number, name in enumerate(self.names):
            files: Files = {b"f": (FILE, b"base\n")}
            if number not in idle:
                files[name.encode()] = (FILE, b"x")
            if number in shared:
                files[b"f"] = (FILE, b"of %d\n" % number)
            self.children.append(Child.of(name, self.base, world.tree(files), world.store))

    async def merged(self, check: Tests, policy: Policy | None = None, max_checks: int = 200) -> Verified:
        return await verified(self.base, self.children, policy or Policy(), check, max_checks=max_checks)


def kept(came: Verified) -> list[str]:
    return sorted(path for path in came.result.tree.entries if path.startswith("c"))


def left(came: Verified) -> dict[str, str]:
    return {one.name: one.reason for one in came.left_out}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_those_who_pass_together_take_one_check(world: World) -> None:
    team = Team(world, 40)
    came = await team.merged(Tests(without()))
    assert kept(came) == team.names
    assert (came.checks, came.left_out, came.checked, came.base_fails) == (1, (), Checked(True, "passed", 0), False)


async def test_a_culprit_is_left_out_with_what_the_check_said_of_it(world: World) -> None:
    team = Team(world, 40)
    came = await team.merged(Tests(without("c17")))
    assert kept(came) == [name for name in team.names if name != "c17"]
    [culprit] = came.left_out
    assert (culprit.name, culprit.reason, culprit.exit_code) == ("c17", "check", 1)
    assert culprit.output == f"failed with {team.names[:18]}"
    assert came.checks <= 2 * math.ceil(math.log2(40)) + 2


async def test_of_two_who_only_fail_together_the_first_is_kept(world: World) -> None:
    came = await Team(world, 8).merged(Tests(lambda present: not {"c02", "c05"} <= present))
    assert left(came) == {"c05": "check"}


async def test_who_needs_another_that_comes_later_is_kept_with_it(world: World) -> None:
    def good(present: frozenset[str]) -> bool:
        return ("c00" not in present or "c05" in present) and "c07" not in present

    assert left(await Team(world, 8).merged(Tests(good))) == {"c07": "check"}


async def test_who_does_not_fit_to_those_before_is_left_out_without_being_checked(world: World) -> None:
    check = Tests(without())
    came = await Team(world, 4, shared=(1, 3)).merged(check)
    assert left(came) == {"c03": "conflict"}
    assert came.result.tree.entries["f"] == came.left_out[0].conflicts[0].ours.node  # type: ignore[union-attr]
    [conflict] = came.left_out[0].conflicts
    assert (conflict.path, conflict.children) == ("f", ("c01", "c03"))
    assert conflict.theirs is not None
    assert came.left_out[0].contents.get(conflict.theirs.node.blob) == b"of 3\n"
    assert not came.result.conflicts
    assert not any({"c01", "c03"} <= asked for asked in check.asked)


async def test_a_conflict_that_the_policy_settles_is_none(world: World) -> None:
    came = await Team(world, 4, shared=(1, 3)).merged(Tests(without()), always("union"))
    assert (left(came), came.checks, came.result.clean) == ({}, 1, True)


async def test_what_was_settled_after_the_merge_is_checked_and_no_conflict_any_more(world: World) -> None:
    team = Team(world, 3, shared=[0, 2])

    async def settle(result: MergeResult) -> MergeResult:
        return replace(result, conflicts=tuple(replace(one, settled=True) for one in result.conflicts))

    came = await verified(team.base, team.children, Policy(), Tests(without()), finish=settle)
    assert kept(came) == team.names
    assert came.checks == 1


async def test_a_base_that_fails_by_itself_is_told_as_that(world: World) -> None:
    came = await Team(world, 4).merged(Tests(lambda _: False))
    assert came.base_fails
    assert came.checked == Checked(False, "failed with []", 1)
    assert came.result.tree.id == came.result.base.id
    assert [*left(came)] == ["c00", "c01", "c02", "c03"]


async def test_a_base_that_passes_when_nobody_does_is_not_to_blame(world: World) -> None:
    came = await Team(world, 4).merged(Tests(lambda present: not present))
    assert not came.base_fails
    assert came.checked == Checked(True, "passed", 0)
    assert len(came.left_out) == 4


async def test_children_who_changed_nothing_are_not_checked_one_by_one(world: World) -> None:
    came = await Team(world, 40, idle=range(40)).merged(Tests(lambda _: False))
    assert (came.checks, came.base_fails) == (1, True)
    came = await Team(world, 40, idle=range(39)).merged(Tests(without("c39")))
    assert left(came) == {"c39": "check"}
    assert came.checks == 2


async def test_what_is_not_decided_within_the_bound_is_left_out_and_said_to_be(world: World) -> None:
    check = Tests(without("c01"))
    came = await Team(world, 8, shared=(6, 7)).merged(check, max_checks=4)  # 0-7 and 4-7 have a conflict in them
    assert came.checks == len(check.asked) == 4
    assert kept(came) == ["c00", "c02", "c03"]
    assert left(came) == {"c01": "check", **dict.fromkeys(["c04", "c05", "c06", "c07"], "undecided")}


async def test_a_bound_that_allows_nothing_is_refused(world: World) -> None:
    with pytest.raises(InvalidSpec, match="max_checks=0"):
        await Team(world, 1).merged(Tests(without()), max_checks=0)


async def test_a_check_that_cannot_be_made_is_no_verdict(world: World) -> None:
    async def broken(_: MergeResult) -> Checked:
        raise ConnectionError("no sandbox")

    team = Team(world, 3)
    with pytest.raises(ConnectionError, match="no sandbox"):
        await verified(team.base, team.children, Policy(), broken)


_SIZE = 9
_numbers = st.integers(min_value=0, max_value=_SIZE - 1)
_pairs = st.lists(st.tuples(_numbers, _numbers), max_size=3)


@dataclass(frozen=True)
class Rules:
    """Who fails alone, who fails beside whom, who fails without whom."""

    culprits: Collection[int]
    enemies: Collection[tuple[int, int]]
    needs: Collection[tuple[int, int]]

    def good(self, present: frozenset[str]) -> bool:
        there = {int(name[1:]) for name in present}
        return (
            there.isdisjoint(self.culprits)
            and not any(one != other and {one, other} <= there for one, other in self.enemies)
            and all(one not in there or other in there for one, other in self.needs)
        )


_rules = st.builds(Rules, st.sets(_numbers, max_size=4), _pairs, _pairs)


@given(rules=_rules, shared=st.sets(_numbers, max_size=3))
@settings(max_examples=60, deadline=None)
async def test_the_result_passes_and_nobody_could_be_added(
    tmp_path_factory: pytest.TempPathFactory, rules: Rules, shared: set[int]
) -> None:
    team = Team(World(tmp_path_factory.mktemp("world")), _SIZE, shared)
    check = Tests(rules.good)
    came = await team.merged(check)
    there = frozenset(kept(came))
    assert rules.good(there)
    assert came.result.clean
    assert there | left(came).keys() == {*team.names}
    assert there.isdisjoint(left(came))
    sharers = {team.names[number] for number in shared}
    assert not any(rules.good(there | {name}) and len(sharers & (there | {name})) < 2 for name in left(came))
    assert came.checks == len(check.asked) == len(set(check.asked))


@given(rules=_rules, bound=st.integers(min_value=1, max_value=12))
@settings(max_examples=60, deadline=None)
async def test_no_more_is_asked_than_is_allowed_and_the_answer_is_always_the_same(
    tmp_path_factory: pytest.TempPathFactory, rules: Rules, bound: int
) -> None:
    team = Team(World(tmp_path_factory.mktemp("world")), _SIZE)
    first, second = Tests(rules.good), Tests(rules.good)
    came = await team.merged(first, max_checks=bound)
    again = await team.merged(second, max_checks=bound)
    assert came.checks == len(first.asked) <= bound
    assert first.asked == second.asked
    assert (kept(came), left(came), came.result.tree) == (kept(again), left(again), again.result.tree)
    assert rules.good(frozenset(kept(came)))
    if "undecided" in left(came).values():
        assert came.checks == bound


@given(culprits=st.sets(_numbers, max_size=_SIZE))
@settings(max_examples=40, deadline=None)
async def test_culprits_alone_are_left_out(tmp_path_factory: pytest.TempPathFactory, culprits: set[int]) -> None:
    team = Team(World(tmp_path_factory.mktemp("world")), _SIZE)
    came = await team.merged(Tests(Rules(culprits, (), ()).good))
    assert left(came) == {team.names[number]: "check" for number in sorted(culprits)}
    assert came.checks <= 1 + len(culprits) * (2 * math.ceil(math.log2(_SIZE)) + 1)
