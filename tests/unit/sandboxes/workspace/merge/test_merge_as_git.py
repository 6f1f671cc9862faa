"""Thousands of histories, each merged by us and by `git merge-tree`: what is a conflict for one is a conflict for the other."""

from __future__ import annotations

from random import Random

import pytest

from sandboxes.workspace.merge import Child, MergeResult, merge
from sandboxes.workspace.tree import BaseTree, Tree
from tests.unit.sandboxes.workspace.merge.differences import likeness_may_differ
from tests.unit.sandboxes.workspace.merge.gits import Gits, Merged
from tests.unit.sandboxes.workspace.merge.histories import history, side
from tests.unit.sandboxes.workspace.trees import FILE, Files

HISTORIES = 3000
MOST_EXCUSED = HISTORIES // 500

pytestmark = pytest.mark.timeout(300)


def folded(gits: Gits, base: BaseTree, *sides: Tree) -> MergeResult:
    return merge(base, [Child.of(f"child {number}", base, tree, gits.store) for number, tree in enumerate(sides)])


def agree(ours: MergeResult, gits: Merged) -> bool:
    if ours.conflicts or not gits.clean:
        return bool(ours.conflicts) != gits.clean
    return ours.tree.id == gits.tree


@pytest.fixture(scope="module")
def gits(tmp_path_factory: pytest.TempPathFactory) -> Gits:
    return Gits(tmp_path_factory.mktemp("gits") / "repository")


def test_the_verdict_is_gits_and_so_is_the_tree(gits: Gits) -> None:
    histories = [history(seed) for seed in range(HISTORIES)]
    trees = [(gits.base(one.base), gits.tree(one.ours), gits.tree(one.theirs)) for one in histories]

    answers = gits.merge(gits.sides(*three) for three in trees)

    differing = [
        one for one, three, answer in zip(histories, trees, answers, strict=True) if not agree(folded(gits, *three), answer)
    ]
    assert [one.seed for one in differing if not likeness_may_differ(one.base, one.ours, one.theirs)] == []
    assert len(differing) <= MOST_EXCUSED
    assert HISTORIES // 4 < sum(answer.clean for answer in answers) < HISTORIES * 3 // 4  # both happen, often


def test_so_it_is_when_a_third_child_meets_what_two_came_to(gits: Gits) -> None:
    cases = [three_children(gits, seed) for seed in range(HISTORIES, HISTORIES + 800)]
    clean = [case for case in cases if not folded(gits, *case[1][:3]).conflicts]

    answers = gits.merge(gits.sides(trees[0], folded(gits, *trees[:3]).tree, trees[3]) for _, trees in clean)

    differing = [
        files
        for (files, trees), answer in zip(clean, answers, strict=True)
        if not agree(folded(gits, *trees), answer) and not likeness_may_differ(*files)
    ]
    assert differing == []
    assert len(clean) > 200


def three_children(gits: Gits, seed: int) -> tuple[list[Files], tuple[BaseTree, Tree, Tree, Tree]]:
    one = history(seed)
    third = side(Random(-seed), one.base)
    trees = (gits.base(one.base), gits.tree(one.ours), gits.tree(one.theirs), gits.tree(third))
    return [one.base, one.ours, one.theirs, third], trees


def one_file(gits: Gits, base: Files, ours: Files, theirs: Files) -> tuple[MergeResult, Merged]:
    trees = gits.base(base), gits.tree(ours), gits.tree(theirs)
    [answer] = gits.merge([gits.sides(*trees)])
    return folded(gits, *trees), answer


def lines(text: str) -> Files:
    return {b"f": (FILE, "".join(f"{line}\n" for line in text).encode())}


def test_repeated_lines_are_the_third_difference(gits: Gits) -> None:
    ours, git = one_file(gits, lines("cacc"), lines("ccc"), lines("cac"))
    assert (ours.clean, git.clean) == (True, False)
    ours, git = one_file(gits, lines("bab"), lines("abaab"), lines("ba"))
    assert (ours.clean, git.clean) == (False, True)


def test_an_unfinished_last_line_is_the_second_difference(gits: Gits) -> None:
    long = b"a line that is never finished, and is most of the file"
    base: Files = {b"a": (FILE, b"begin\n" + long)}
    moved: Files = {b"b": (FILE, b"start\n" + long)}
    ours, git = one_file(gits, base, moved, {})
    assert [conflict.kind for conflict in ours.conflicts] == ["rename/delete"]
    assert git.clean in (True, False)  # by its version


def test_a_file_in_a_folder_that_was_moved_is_the_first_difference(gits: Gits) -> None:
    base: Files = {b"old/%d" % number: (FILE, b"file %d\n" % number) for number in range(3)}
    moved = {path.replace(b"old", b"new"): node for path, node in base.items()}
    added = {**base, b"old/added": (FILE, b"added\n")}
    ours, git = one_file(gits, base, moved, added)
    assert ours.clean
    assert git.clean
    assert "old/added" in ours.tree.entries
