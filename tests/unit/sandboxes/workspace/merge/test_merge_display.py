"""What people and agents see of a merge: conflicts as files, and what became of a child in sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.workspace.merge import MergeResult, Policy
from sandboxes.workspace.merge.display import LISTED, README, TEXT_CAP, conflict_files
from sandboxes.workspace.merge.summary import SAID, merge_summary
from sandboxes.workspace.merge.verified import LeftOut, Reason
from sandboxes.workspace.names import NAME_CAP, parents, split
from tests.unit.sandboxes.workspace.merge.histories import history
from tests.unit.sandboxes.workspace.merge.test_merge_properties import CHOICES, seeds, worlds
from tests.unit.sandboxes.workspace.merge.worlds import LINES, World, always
from tests.unit.sandboxes.workspace.trees import FILE, LINK, Files

ONE, UNO = (LINES.replace(b"line 1", word) for word in (b"ONE", b"UNO"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def left_out(result: MergeResult, reason: Reason, output: str = "") -> LeftOut:
    """The last child of a merge, as one that was left out of it."""
    conflicts = result.conflicts if reason == "conflict" else ()
    return LeftOut(result.per_child[-1].name, reason, output, 1 if reason == "check" else None, conflicts, result.contents)


def test_a_text_in_conflict_is_there_from_all_sides(world: World) -> None:
    came = world.merge({b"src/f.py": (FILE, LINES)}, {b"src/f.py": (FILE, ONE)}, {b"src/f.py": (FILE, UNO)})
    files = conflict_files(came.result)
    assert [*files] == ["B"]
    assert {path: text for path, text in files["B"].items() if path != README} == {
        "src/f.py.base": LINES,
        "src/f.py.ours": ONE,
        "src/f.py.theirs": UNO,
        "src/f.py.marked": came.files[b"src/f.py"][1],
    }
    page = files["B"][README].decode()
    assert "## `'src/f.py'`" in page
    assert "content, between `'A'`, `'B'`. The result has the text with conflict markers." in page
    assert "- theirs: `'src/f.py'`, mode 100644, in `src/f.py.theirs`" in page


@pytest.mark.parametrize(
    ("policy", "holds"),
    [(always("ask"), "The result has ours."), (always("markers"), "The result has the text with conflict markers.")],
)
def test_it_is_said_what_the_result_holds(world: World, policy: Policy, holds: str) -> None:
    came = world.merge({b"f": (FILE, LINES)}, {b"f": (FILE, ONE)}, {b"f": (FILE, UNO)}, policy=policy)
    assert holds in conflict_files(came.result)["B"][README].decode()


def test_what_is_removed_on_one_side_is_nothing_there(world: World) -> None:
    files = conflict_files(world.merge({b"f": (FILE, LINES)}, {}, {b"f": (FILE, UNO)}).result)["B"]
    assert sorted(files) == [README, "f.base", "f.theirs"]
    assert b"- ours: nothing\n" in files[README]
    assert b"The result has nothing there." in files[README]


def test_of_what_is_no_text_a_line_says_what_it_is(world: World) -> None:
    long = b"x" * (TEXT_CAP + 1)
    came = world.merge(
        {b"l": (LINK, b"a"), b"b": (FILE, b"\0"), b"t": (FILE, b"")},
        {b"l": (LINK, b"b\n"), b"b": (FILE, b"\0one"), b"t": (FILE, long)},
        {b"l": (LINK, b"c"), b"b": (FILE, b"\0uno"), b"t": (FILE, b"y")},
    )
    files = conflict_files(came.result)["B"]
    assert files["l.ours"] == b"a link to 'b\\n'\n"
    assert files["b.theirs"].startswith(b"no text: 4 bytes, blob ")
    assert files["t.ours"].startswith(b"too long to be shown: %d bytes, blob " % len(long))
    assert files["t.marked"].startswith(b"too long to be shown: ")


def test_a_conflict_belongs_to_who_met_it_and_one_that_is_settled_to_nobody(world: World) -> None:
    base: Files = {b"f": (FILE, LINES), b"g": (FILE, LINES)}
    sides: list[Files] = [
        {**base, b"f": (FILE, ONE), b"g": (FILE, ONE)},
        {**base, b"f": (FILE, UNO)},
        {**base, b"g": (FILE, UNO)},
    ]
    files = conflict_files(world.merge(base, *sides).result)
    assert {name: sorted(texts)[1] for name, texts in files.items()} == {"B": "f.base", "C": "g.base"}
    assert conflict_files(world.merge(base, *sides, policy=always("ours")).result) == {}


def test_who_was_left_out_gets_the_conflicts_or_what_the_check_said(world: World) -> None:
    base: Files = {b"f": (FILE, LINES)}
    came = world.merge(base, {b"f": (FILE, ONE)}, {b"f": (FILE, UNO)}).result
    kept = world.merge(base, {b"f": (FILE, ONE)}).result
    in_conflict = conflict_files(kept, [left_out(came, "conflict")])["B"]
    assert in_conflict["f.theirs"] == UNO
    assert b"Nothing of it was merged: it does not fit to those before it." in in_conflict[README]
    assert b"The result has ours." in in_conflict[README]
    failed = conflict_files(kept, [left_out(came, "check", "1 test failed\x1b[31m\n")])["B"]
    assert failed["output.txt"] == "1 test failed\ufffd[31m\n".encode()
    assert b"the check failed (exit code 1)." in failed[README]
    assert conflict_files(kept, [left_out(came, "undecided")]) == {}


def test_what_does_not_fit_into_the_caps_is_listed(world: World) -> None:
    names = [b"%04d" % number for number in range(LISTED + 5)]
    sides = [dict.fromkeys(names, (FILE, text)) for text in (LINES, ONE, UNO)]
    result = world.merge(*sides).result  # type: ignore[arg-type]
    few = conflict_files(result, cap_files=9)["B"]
    assert len(few) == 9
    assert few[README].count(b"## ") == LISTED
    assert few[README].count(b"too many, or too long") == LISTED - 2
    assert b"... and 5 more." in few[README]
    assert sum(len(text) for path, text in conflict_files(result, cap_bytes=1000)["B"].items() if path != README) <= 1000


def is_a_folder_of_files(files: dict[str, bytes]) -> bool:
    """Whether all paths can be made, one beside the other."""
    names = [split(path) for path in files]
    shortish = all(len(part.encode()) <= NAME_CAP for parts in names for part in parts)
    return (
        shortish and all(path.isprintable() for path in files) and not any(set(parents(path)) & files.keys() for path in files)
    )


HOSTILE = [
    *(b"\xff\xfe", b"a\nb", b"\x1b[31m", b"README", b"README.md/x", b"output.txt/y", b"`x`", "\u202e".encode()),
    *(
        b"x",
        b"x.base/y",
        b"x.ours",
        b"\xff" * 255,
        b"\xfe" * 255 + b"/" + b"\xfe" * 255,
        b"/".join([b"deep" * 20] * 40),
        b"%FF%FE",
    ),
]


def test_no_path_is_lost_or_in_the_way_of_another(world: World) -> None:
    sides = [dict.fromkeys(HOSTILE, (FILE, text)) for text in (ONE, UNO)]
    came = world.merge({}, *sides)  # type: ignore[arg-type]
    files = conflict_files(came.result)["B"]
    assert is_a_folder_of_files(files)
    assert len([path for path in files if path.endswith(".theirs")]) == len(came.result.conflicts) == len(HOSTILE)
    assert "%FF%FE.ours" in files
    assert "%FF%FE~2.ours" in files
    assert files[README].count(b"\n## ") == len(HOSTILE)
    assert b"\x1b" not in files[README]


def test_a_folder_that_was_there_first_stays_one(world: World) -> None:
    base: Files = {b"x": (FILE, LINES), b"x.base/y": (FILE, LINES)}
    came = world.merge(base, dict.fromkeys(base, (FILE, ONE)), {b"x": (FILE, UNO)})
    assert came.kinds == [("x.base/y", "modify/delete"), ("x", "content")]
    files = conflict_files(came.result)["B"]
    assert is_a_folder_of_files(files)
    assert files["x.base/y.ours"] == files["x~2.ours"] == ONE


@given(seeds, st.sampled_from(CHOICES))
@settings(max_examples=60, deadline=None)
def test_every_conflict_of_any_merge_can_be_shown(seed: int, choice: str) -> None:
    one = history(seed)
    with worlds() as world:
        result = world.merge(one.base, one.ours, one.theirs, policy=always(choice)).result  # type: ignore[arg-type]
        files = conflict_files(result)
        assert all(is_a_folder_of_files(texts) for texts in files.values())
        waiting = sum(not conflict.settled for conflict in result.conflicts)
        assert sum(texts[README].count(b"\n## ") for texts in files.values()) == waiting
        assert merge_summary(result, (), "B").startswith("Merged: ")


def test_a_summary_says_what_was_merged_and_what_was_not(world: World) -> None:
    base: Files = {b"f": (FILE, LINES), b"g": (FILE, LINES)}
    sides: list[Files] = [{**base, b"f": (FILE, ONE)}, {**base, b"f": (FILE, UNO), b"new": (FILE, b""), b"x.log": (FILE, b"")}]
    result = world.merge(base, *sides, base, policy=replace(always("ask"), exclude=("*.log",))).result
    assert merge_summary(result, (), "A") == "Merged: 1 file ('f')."
    assert merge_summary(result, (), "B") == (
        "Merged: 1 file ('new'). In conflict: 'f' (content, with 'A'). All sides are in '/conflicts/B/'. "
        "Left out, as the policy says: 1 file ('x.log')."
    )
    assert merge_summary(result, (), "C") == "Merged: it changed nothing."
    settled = world.merge(base, *sides, policy=always("theirs")).result
    assert "Conflicts that the policy settled: 'f' (theirs)." in merge_summary(settled, (), "B")
    with pytest.raises(KeyError):
        merge_summary(result, (), "D")


def test_a_summary_says_why_nothing_was_merged(world: World) -> None:
    came = world.merge({b"f": (FILE, LINES)}, {b"f": (FILE, ONE)}, {b"f": (FILE, UNO)}).result
    said = merge_summary(came, [left_out(came, "check", "x" * 10_000 + "\n1 failed\x1b[0m")], "B")
    assert said.startswith(
        "Nothing of it was merged: with it, the check failed (exit code 1). The check said, in the end:\nxxx"
    )
    assert said.endswith("xxx\n1 failed\ufffd[0m")
    assert len(said) < SAID + 100
    assert merge_summary(came, [left_out(came, "conflict")], "B") == (
        "Nothing of it was merged: it does not fit to those before it. "
        "In conflict: 'f' (content, with 'A'). All sides are in '/conflicts/B/'."
    )
    assert "was not decided" in merge_summary(came, [left_out(came, "undecided")], "B")


def test_a_summary_is_short_and_on_one_line_whatever_the_names(world: World) -> None:
    sides = [{b"\x1b%d\n" % number * 60: (FILE, text) for number in range(100)} for text in (ONE, UNO)]
    result = world.merge({}, *sides, names=["A", "B\n\x1b"]).result  # type: ignore[arg-type]
    for name in ("A", "B\n\x1b"):
        summary = merge_summary(result, (), name)
        assert summary.isprintable()
        assert len(summary) < 3500
        assert " and 90 more" in summary
