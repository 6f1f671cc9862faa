"""What holds for every merge."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.workspace.merge import Choice, Rule
from sandboxes.workspace.mergepolicy import Policy
from tests.unit.sandboxes.workspace.merge.histories import SUBMODULE, history
from tests.unit.sandboxes.workspace.merge.worlds import Came, World
from tests.unit.sandboxes.workspace.trees import FILE, Files

CHOICES: list[Choice] = ["markers", "ours", "theirs", "union", "fail", "ask"]
seeds = st.integers(min_value=0, max_value=10**9)
often = settings(max_examples=100, deadline=None)


@contextmanager
def worlds() -> Iterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="fanfold-merge-"))
    try:
        yield World(folder)
    finally:
        shutil.rmtree(folder)


@given(seeds)
@often
def test_what_one_child_made_is_what_comes_of_it(seed: int) -> None:
    one = history(seed)
    with worlds() as world:
        for sides in ([one.ours], [one.ours, one.base], [one.base, one.ours], [one.ours, one.ours]):
            came = world.merge(one.base, *sides)
            assert came.files == one.ours
            assert not came.result.conflicts


@given(seeds, st.integers(min_value=2, max_value=4))
@often
def test_changes_to_different_files_come_to_one_tree_in_any_order(seed: int, count: int) -> None:
    one = history(seed)
    base = {b"%d/%s" % (number, path): node for number in range(count) for path, node in one.base.items()}
    sides = []
    for number in range(count):
        own = b"%d/" % number
        changed = one.ours if number % 2 else one.theirs
        others = {path: node for path, node in base.items() if not path.startswith(own)}
        sides.append({**others, **{own + path: node for path, node in changed.items()}})
    with worlds() as world:
        came = [world.merge(base, *order) for order in permutations(sides)]
        assert not any(one.result.conflicts for one in came)
        assert len({one.result.tree.id for one in came}) == 1


@given(seeds, seeds, st.sampled_from(CHOICES))
@often
def test_nothing_of_a_child_is_lost(seed: int, other: int, choice: Choice) -> None:
    one = history(seed)
    sides = [one.ours, one.theirs, {**one.base, b"third": (FILE, b"%d\n" % other)}]
    with worlds() as world:
        came = world.merge(one.base, *sides, policy=Policy((Rule("**", choice),)))
        kept = everything(came)
        for side in sides:
            for path in side.keys() | one.base.keys():
                if side.get(path) != one.base.get(path):
                    assert is_kept(path, one.base, side, came, kept)


def everything(came: Came) -> set[bytes]:
    """All contents that are in the tree or in a conflict."""
    sides = [at for one in came.result.conflicts for at in (one.ours, one.theirs) if at]
    return {content for _, content in came.files.values()} | {came.content(at.node) for at in sides}


def is_kept(path: bytes, base: Files, side: Files, came: Came, kept: set[bytes]) -> bool:
    """Whether what a side has at a path is kept whole, or all its new lines are in one content that is."""
    if path not in side or side[path][1] in kept:
        return True
    content = side[path][1]
    before = {line for _, known in base.values() for line in known.splitlines()}
    new = {line for line in content.splitlines() if line not in before}
    return any(new <= set(whole.splitlines()) for whole in kept)


@given(seeds, st.sampled_from(CHOICES))
@often
def test_a_merge_is_a_function_of_what_it_is_given(seed: int, choice: Choice) -> None:
    one = history(seed)
    with worlds() as world:
        first, second = (
            world.merge(one.base, one.ours, one.theirs, one.ours, policy=Policy((Rule("**", choice),))) for _ in range(2)
        )
        assert first.result.tree == second.result.tree
        assert first.result.conflicts == second.result.conflicts


@given(seeds, st.sampled_from(CHOICES))
@often
def test_the_tree_is_one_that_can_be_and_all_its_contents_are_there(seed: int, choice: Choice) -> None:
    one = history(seed)
    with worlds() as world:
        came = world.merge(one.base, one.ours, one.theirs, policy=Policy((Rule("**", choice),)))
        paths = set(came.files)
        assert not any(other.startswith(path + b"/") for path in paths for other in paths)
        files = [node for node in came.result.tree.entries.values() if node.mode != SUBMODULE]
        assert all(len(world.store.get(node.blob)) == node.size for node in files)
        assert came.result.merged.keys() == {
            path
            for path in came.result.tree.entries.keys() | came.result.base.entries.keys()
            if came.result.tree.entries.get(path) != came.result.base.entries.get(path)
        }
