"""What a policy does about conflicts, and about which paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxes.errors import InvalidSpec
from sandboxes.workspace.merge import Child, Choice, Driver, Policy, Rule, merge
from tests.unit.sandboxes.workspace.merge.worlds import LINES, World, always
from tests.unit.sandboxes.workspace.trees import FILE, LINK, Files

BASE: Files = {b"f": (FILE, LINES)}


def changed(word: bytes, path: bytes = b"f") -> Files:
    """Line 1 in conflict, and a line of this side's own."""
    own = {b"ONE": b"line 4", b"UNO": b"line 8"}[word]
    return {path: (FILE, LINES.replace(b"line 1", word).replace(own, own + b" of " + word))}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("choice", "words", "settled"),
    [
        ("ours", [b"ONE"], True),
        ("theirs", [b"UNO"], True),
        ("union", [b"ONE", b"UNO"], True),
        ("markers", [b"ONE", b"UNO"], False),
    ],
)
def test_a_text_gets_the_lines_that_the_policy_says(world: World, choice: Choice, words: list[bytes], settled: bool) -> None:
    came = world.merge(BASE, changed(b"ONE"), changed(b"UNO"), policy=always(choice))
    lines = came.files[b"f"][1].splitlines()
    assert [word for word in (b"ONE", b"UNO") if word in lines] == words
    assert b"line 4 of ONE" in lines  # what does not conflict is merged, whatever the policy
    assert b"line 8 of UNO" in lines
    assert came.conflict.settled == came.result.clean == settled
    assert came.conflict.marked


@pytest.mark.parametrize("choice", ["ask", "fail"])
def test_what_is_to_be_asked_or_to_fail_stays_as_it_was(world: World, choice: Choice) -> None:
    came = world.merge(BASE, changed(b"ONE"), changed(b"UNO"), policy=always(choice))
    assert came.files == changed(b"ONE")
    assert not came.result.clean
    assert came.result.refused == (choice == "fail")
    assert came.conflict.choice == choice


@pytest.mark.parametrize(("choice", "left"), [("ours", b"b"), ("theirs", b"c"), ("union", b"b"), ("markers", b"b")])
def test_of_what_is_no_text_one_side_is_taken(world: World, choice: Choice, left: bytes) -> None:
    came = world.merge({b"l": (LINK, b"a")}, {b"l": (LINK, b"b")}, {b"l": (LINK, b"c")}, policy=always(choice))
    assert came.files == {b"l": (LINK, left)}
    assert came.result.clean == (choice in ("ours", "theirs"))


def test_theirs_takes_removals_too(world: World) -> None:
    assert world.merge(BASE, changed(b"ONE"), {}, policy=always("theirs")).files == {}
    assert world.merge(BASE, {}, changed(b"ONE"), policy=always("theirs")).files == changed(b"ONE")


def test_a_file_that_both_moved_apart_lies_where_the_policy_says(world: World) -> None:
    sides: list[Files] = [{b"g": (FILE, LINES)}, {b"h": (FILE, LINES)}]
    assert set(world.merge(BASE, *sides, policy=always("ours")).files) == {b"g"}
    assert set(world.merge(BASE, *sides, policy=always("theirs")).files) == {b"h"}
    assert set(world.merge(BASE, *sides, policy=always("union")).files) == {b"g", b"h"}


def test_the_last_rule_that_matches_holds(world: World) -> None:
    policy = Policy((Rule("*.md", "ours"), Rule("docs/", "theirs"), Rule("docs/keep/*.md", "fail")))
    with policy.opened() as opened:
        found = {path: opened.rule(path).choice for path in ("a.md", "x/a.md", "docs/a.md", "docs/keep/a.md", "a.txt")}
    assert found == {"a.md": "ours", "x/a.md": "ours", "docs/a.md": "theirs", "docs/keep/a.md": "fail", "a.txt": "markers"}


@pytest.mark.parametrize("pattern", ["", " ", "!a", "#a", "a\nb", "a\0"])
def test_a_pattern_that_can_match_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidSpec, match="can match nothing"):
        Rule(pattern)


def test_what_is_excluded_or_not_included_is_left_out_and_reported(world: World) -> None:
    side: Files = {**BASE, b"src/a": (FILE, b"a"), b"src/a.log": (FILE, b"log"), b"tmp": (FILE, b"tmp")}
    came = world.merge(BASE, side, policy=Policy(include=("src/",), exclude=("*.log",)))
    assert set(came.files) == {b"f", b"src/a"}
    assert came.result.per_child[0].left_out == ("src/a.log", "tmp")


@pytest.mark.parametrize("path", [b".git/config", b"sub/.git/hooks/x", b".GIT/config", b"git~1/x", ".g\u200cit/x".encode()])
def test_nothing_that_git_would_take_for_its_own_folder_is_merged(world: World, path: bytes) -> None:
    came = world.merge(BASE, {**BASE, path: (FILE, b"x")})
    assert came.files == BASE
    assert came.result.per_child[0].left_out == (path.decode(),)


def test_what_a_command_makes_is_to_be_made_anew_once_two_changed_it(world: World) -> None:
    policy = Policy((Rule("*.lock", command="make lock"),))
    base: Files = {b"a.lock": (FILE, LINES)}
    sides: list[Files] = [{b"a.lock": (FILE, LINES.replace(b"line %d" % number, b"X"))} for number in (1, 8)]
    assert world.merge(base, sides[0], base, policy=policy).result.clean
    came = world.merge(base, *sides, policy=policy)
    assert (came.conflict.command, came.conflict.settled) == ("make lock", False)
    assert came.files == sides[0]


def test_json_is_merged_by_key_where_a_rule_says_so(world: World) -> None:
    base: Files = {b"p.json": (FILE, b'{\n  "a": 1\n}\n')}
    sides: list[Files] = [{b"p.json": (FILE, b'{\n  "a": 1,\n  "%s": 2\n}\n' % key)} for key in (b"b", b"c")]
    assert world.merge(base, *sides).kinds == [("p.json", "content")]
    for driver in ("json", "auto"):
        came = world.merge(base, *sides, policy=Policy((Rule("*", driver=driver),)))  # type: ignore[arg-type]
        assert came.files == {b"p.json": (FILE, b'{\n  "a": 1,\n  "c": 2,\n  "b": 2\n}\n')}
        assert came.result.clean


@pytest.mark.parametrize(
    ("path", "driver", "clean"),
    [
        (b"p.toml", "auto", True),
        (b"p.toml", "toml", True),
        (b"p.toml", "yaml", False),
        (b"p.toml", "text", False),
        (b"p.txt", "auto", False),
        (b"p.txt", "toml", True),
    ],
)
def test_a_driver_is_that_of_the_rule_or_of_the_name(world: World, path: bytes, driver: Driver, clean: bool) -> None:
    sides: list[Files] = [{path: (FILE, b"a = 1\n%s = 2\n" % key)} for key in (b"b", b"c")]
    came = world.merge({path: (FILE, b"a = 1\n")}, *sides, policy=Policy((Rule("*", driver=driver),)))
    assert came.result.clean == clean


def test_two_children_of_one_name_are_refused(world: World) -> None:
    base = world.base(BASE)
    with pytest.raises(InvalidSpec, match="same name: A"):
        merge(base, [Child("A", {}, world.store), Child("A", {}, world.store)])


def test_contents_come_from_where_each_child_has_them(tmp_path: Path) -> None:
    places = [World(tmp_path / name) for name in ("base", "one", "two")]
    for number in range(3):
        (tmp_path / str(number)).mkdir()
    base = places[0].base(BASE)
    sides = [(changed(b"ONE"), places[1]), ({**changed(b"UNO"), b"new": (FILE, b"new\n")}, places[2])]
    children = [Child.of(str(n), base, place.tree(files), place.store) for n, (files, place) in enumerate(sides)]
    result = merge(base, children)
    assert {path: result.contents.get(node.blob) for path, node in result.tree.entries.items()}["new"] == b"new\n"
    assert [conflict.kind for conflict in result.conflicts] == ["content"]
