"""What is a conflict and what is none, kind by kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.sandboxes.workspace.merge.histories import COMMITS, SUBMODULE
from tests.unit.sandboxes.workspace.merge.worlds import LINES, World
from tests.unit.sandboxes.workspace.trees import EXECUTABLE, FILE, LINK, Files

BASE: Files = {b"f": (FILE, LINES), b"other": (FILE, b"other\n")}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def changed(old: bytes, new: bytes, mode: str = FILE) -> Files:
    return {**BASE, b"f": (mode, LINES.replace(old, new))}  # type: ignore[dict-item]


def without(path: bytes, files: Files = BASE) -> Files:
    return {other: node for other, node in files.items() if other != path}


def test_changes_to_different_lines_are_both_there(world: World) -> None:
    came = world.merge(BASE, changed(b"line 1\n", b"ONE\n"), changed(b"line 8\n", b"EIGHT\n"))
    assert came.files == {**BASE, b"f": (FILE, LINES.replace(b"line 1\n", b"ONE\n").replace(b"line 8\n", b"EIGHT\n"))}
    assert came.result.clean
    assert came.result.merged == {"f": ("A", "B")}


def test_the_same_change_twice_is_no_conflict(world: World) -> None:
    came = world.merge(BASE, changed(b"line 1", b"ONE"), changed(b"line 1", b"ONE"))
    assert came.files == changed(b"line 1", b"ONE")
    assert came.result.merged == {"f": ("A", "B")}
    assert not came.result.conflicts


def test_the_same_line_changed_to_two_things_is_a_conflict_and_the_text_says_whose(world: World) -> None:
    came = world.merge(BASE, changed(b"line 1\n", b"ONE\n"), changed(b"line 1\n", b"UNO\n"))
    conflict = came.conflict
    assert (conflict.path, conflict.kind, conflict.children, conflict.settled) == ("f", "content", ("A", "B"), False)
    marked = b"<<<<<<< A\nONE\n||||||| base\nline 1\n=======\nUNO\n>>>>>>> B\n"
    assert came.files[b"f"] == (FILE, LINES.replace(b"line 1\n", marked))
    assert [came.content(at.node) for at in (conflict.base, conflict.ours, conflict.theirs) if at] == [
        LINES,
        LINES.replace(b"line 1\n", b"ONE\n"),
        LINES.replace(b"line 1\n", b"UNO\n"),
    ]


def test_a_third_child_meets_the_markers_and_gets_longer_ones(world: World) -> None:
    sides = [changed(b"line 1\n", b"%s\n" % word) for word in (b"ONE", b"UNO", b"EINS")]
    came = world.merge(BASE, *sides)
    content = came.files[b"f"][1]
    assert content.count(b"\n<<<<<<< A\n") == 1
    assert content.count(b"\n<<<<<<<<< A + B\n") == 1
    assert b">>>>>>>>> C\n" in content
    assert [conflict.children for conflict in came.result.conflicts] == [("A", "B"), ("A", "B", "C")]
    assert all(word in content for word in (b"ONE", b"UNO", b"EINS"))


def test_a_third_child_that_changed_other_lines_is_merged_beside_a_conflict(world: World) -> None:
    far = changed(b"line 8", b"EIGHT")
    came = world.merge(BASE, changed(b"line 1", b"ONE"), changed(b"line 1", b"UNO"), far)
    assert len(came.result.conflicts) == 1
    assert b"EIGHT" in came.files[b"f"][1]


def test_two_new_files_at_one_path(world: World) -> None:
    came = world.merge(BASE, {**BASE, b"new": (FILE, b"same\nmine\n")}, {**BASE, b"new": (FILE, b"same\nthine\n")})
    assert came.kinds == [("new", "add/add")]
    assert b"mine" in came.files[b"new"][1]
    assert b"thine" in came.files[b"new"][1]


def test_the_same_new_file_twice_is_no_conflict(world: World) -> None:
    assert world.merge(BASE, {**BASE, b"new": (FILE, b"x")}, {**BASE, b"new": (FILE, b"x")}).result.clean


def test_two_new_files_that_differ_in_the_executable_bit(world: World) -> None:
    came = world.merge(BASE, {**BASE, b"new": (FILE, b"x")}, {**BASE, b"new": (EXECUTABLE, b"x")})
    assert came.kinds == [("new", "mode")]
    assert came.files[b"new"] == (FILE, b"x")


@pytest.mark.parametrize("removed_first", [True, False])
def test_what_one_changed_and_the_other_removed_stays_as_the_first_left_it(world: World, removed_first: bool) -> None:
    sides = [without(b"f"), changed(b"line 1", b"ONE")]
    came = world.merge(BASE, *(sides if removed_first else reversed(sides)))
    assert came.kinds == [("f", "modify/delete")]
    assert (b"f" in came.files) != removed_first
    left = came.conflict.theirs if removed_first else came.conflict.ours
    assert left
    assert came.content(left.node) == LINES.replace(b"line 1", b"ONE")


def test_what_both_removed_is_gone(world: World) -> None:
    came = world.merge(BASE, without(b"f"), without(b"f"))
    assert came.files == without(b"f")
    assert came.result.merged == {"f": ("A", "B")}


def test_a_change_of_mode_and_one_of_content_are_both_there(world: World) -> None:
    came = world.merge(BASE, changed(b"", b"", EXECUTABLE), changed(b"line 1", b"ONE"))
    assert came.files[b"f"] == (EXECUTABLE, LINES.replace(b"line 1", b"ONE"))
    assert came.result.clean


def test_a_file_that_moved_takes_the_others_changes_with_it(world: World) -> None:
    moved = {**without(b"f"), b"folder/g": (FILE, LINES)}
    for sides in ([moved, changed(b"line 1", b"ONE")], [changed(b"line 1", b"ONE"), moved]):
        came = world.merge(BASE, *sides)
        assert came.files == {b"other": (FILE, b"other\n"), b"folder/g": (FILE, LINES.replace(b"line 1", b"ONE"))}
        assert came.result.clean
        assert came.result.merged["folder/g"] == ("A", "B")


def test_a_file_that_moved_and_changed_conflicts_at_its_new_path(world: World) -> None:
    moved = {**without(b"f"), b"g": (FILE, LINES.replace(b"line 1", b"UNO"))}
    came = world.merge(BASE, changed(b"line 1", b"ONE"), moved)
    assert came.kinds == [("g", "content")]
    assert set(came.files) == {b"g", b"other"}
    assert came.conflict.ours
    assert came.conflict.theirs
    assert (came.conflict.ours.path, came.conflict.theirs.path) == ("f", "g")


def test_a_file_that_one_moved_and_the_other_removed(world: World) -> None:
    moved = {**without(b"f"), b"g": (FILE, LINES)}
    came = world.merge(BASE, moved, without(b"f"))
    assert came.kinds == [("g", "rename/delete")]
    assert came.files[b"g"] == (FILE, LINES)
    came = world.merge(BASE, without(b"f"), moved)
    assert came.kinds == [("g", "rename/delete")]
    assert b"g" not in came.files


def test_a_file_that_both_moved_apart(world: World) -> None:
    sides = [{**without(b"f"), name: (FILE, LINES)} for name in (b"g", b"h")]
    came = world.merge(BASE, *sides)
    assert came.kinds == [("f", "rename/rename")]
    assert set(came.files) == {b"g", b"other"}
    assert came.conflict.theirs
    assert came.conflict.theirs.path == "h"


def test_a_file_that_both_moved_to_one_place_is_merged_there(world: World) -> None:
    sides = [{**without(b"f"), b"g": (FILE, LINES.replace(b"line %d" % n, b"X"))} for n in (1, 8)]
    came = world.merge(BASE, *sides)
    assert came.result.clean
    assert came.files[b"g"] == (FILE, LINES.replace(b"line 1", b"X").replace(b"line 8", b"X"))


def test_a_file_that_moved_to_where_the_other_made_one(world: World) -> None:
    moved = {**without(b"f"), b"g": (FILE, LINES)}
    made = {**changed(b"line 1", b"ONE"), b"g": (FILE, b"another\n")}
    for sides in ([moved, made], [made, moved]):
        came = world.merge(BASE, *sides)
        assert came.kinds == [("g", "add/add")]
        assert set(came.files) == {b"g", b"other"}
        assert b"ONE" in came.files[b"g"][1]
        assert b"another" in came.files[b"g"][1]


def test_a_file_that_moved_while_the_other_made_a_link_of_it(world: World) -> None:
    moved = {**without(b"f"), b"g": (FILE, LINES)}
    linked: Files = {**BASE, b"f": (LINK, b"other")}
    came = world.merge(BASE, moved, linked)
    assert came.kinds == [("g", "rename/delete")]
    assert came.files == {**moved, b"f": (LINK, b"other")}


def test_a_file_that_both_moved_and_one_left_a_link_to(world: World) -> None:
    moved = {**without(b"f"), b"g": (FILE, LINES)}
    linked: Files = {**BASE, b"f": (LINK, b"g"), b"g": (FILE, LINES.replace(b"line 1", b"ONE"))}
    for sides in ([moved, linked], [linked, moved]):
        came = world.merge(BASE, *sides)
        assert came.result.clean
        assert came.files == linked


def test_two_files_that_moved_to_one_place(world: World) -> None:
    base: Files = {b"a": (FILE, LINES), b"b": (FILE, LINES.replace(b"line", b"row"))}
    came = world.merge(base, {b"c": base[b"a"], b"b": base[b"b"]}, {b"c": base[b"b"], b"a": base[b"a"]})
    assert came.kinds == [("c", "add/add")]
    assert set(came.files) == {b"c"}


def test_a_name_that_only_changed_its_case_is_a_move(world: World) -> None:
    base: Files = {b"Readme": (FILE, LINES)}
    came = world.merge(base, {b"README": (FILE, LINES)}, {b"Readme": (FILE, LINES.replace(b"line 1", b"ONE"))})
    assert came.files == {b"README": (FILE, LINES.replace(b"line 1", b"ONE"))}
    assert came.result.clean


def test_two_names_that_differ_in_case_are_two_files(world: World) -> None:
    came = world.merge({}, {b"readme": (FILE, b"a")}, {b"README": (FILE, b"b")})
    assert set(came.files) == {b"readme", b"README"}
    assert came.result.clean


def test_a_file_that_one_made_a_link_of(world: World) -> None:
    came = world.merge(BASE, {**BASE, b"f": (LINK, b"other")}, changed(b"line 1", b"ONE"))
    assert came.kinds == [("f", "type")]
    assert came.files[b"f"] == (LINK, b"other")


def test_a_link_that_points_to_two_places(world: World) -> None:
    base: Files = {b"l": (LINK, b"a")}
    came = world.merge(base, {b"l": (LINK, b"b")}, {b"l": (LINK, b"c")})
    assert came.kinds == [("l", "link")]
    assert came.files == {b"l": (LINK, b"b")}


def test_a_file_becomes_a_folder(world: World) -> None:
    folder = {**without(b"f"), b"f/x": (FILE, b"below\n")}
    assert world.merge(BASE, folder, BASE).files == folder
    came = world.merge(BASE, folder, changed(b"line 1", b"ONE"))
    assert came.kinds == [("f", "modify/delete")]
    came = world.merge(BASE, changed(b"line 1", b"ONE"), folder)
    assert came.kinds == [("f", "modify/delete"), ("f/x", "file/folder")]
    assert came.files == changed(b"line 1", b"ONE")


def test_a_folder_becomes_a_file(world: World) -> None:
    base: Files = {b"d/x": (FILE, b"x\n"), b"d/y": (FILE, b"y\n")}
    as_file: Files = {b"d": (FILE, b"was a folder\n")}
    assert world.merge(base, as_file, base).files == as_file
    assert world.merge(base, base, as_file).files == as_file
    came = world.merge(base, {**base, b"d/z": (FILE, b"z\n")}, as_file)
    assert came.kinds == [("d", "file/folder")]
    assert set(came.files) == {b"d/z"}
    assert came.conflict.children == ("A", "B")
    came = world.merge(base, as_file, {**base, b"d/z": (FILE, b"z\n")})
    assert came.kinds == [("d/z", "file/folder")]
    assert set(came.files) == {b"d"}


def test_a_new_file_and_a_new_folder_of_one_name(world: World) -> None:
    sides: list[Files] = [{b"d": (FILE, b"file\n")}, {b"d/x": (FILE, b"below\n")}]
    assert world.merge({}, *sides).kinds == [("d/x", "file/folder")]
    assert world.merge({}, *reversed(sides)).kinds == [("d", "file/folder")]


def test_binary_files_are_never_mixed(world: World) -> None:
    base: Files = {b"b": (FILE, b"\0" + LINES)}
    sides: list[Files] = [{b"b": (FILE, b"\0" + LINES.replace(b"line %d" % n, b"X"))} for n in (1, 8)]
    came = world.merge(base, *sides)
    assert came.kinds == [("b", "binary")]
    assert came.files == sides[0]
    assert came.conflict.marked is None


def test_a_change_of_all_line_ends_is_a_change_of_all_lines(world: World) -> None:
    windows = changed(b"\n", b"\r\n")
    assert world.merge(BASE, windows, changed(b"line 1", b"ONE")).kinds == [("f", "content")]
    assert world.merge(BASE, windows, windows).result.clean


def test_markers_have_the_line_ends_of_their_text(world: World) -> None:
    windows = changed(b"\n", b"\r\n")
    sides = [{**windows, b"f": (FILE, windows[b"f"][1].replace(b"line 1", word))} for word in (b"ONE", b"UNO")]
    content = world.merge(windows, *sides).files[b"f"][1]
    assert content.count(b"\r\n") == content.count(b"\n")
    assert b"\r\n=======\r\n" in content


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8-sig", "cp1252", "shift-jis"])
def test_texts_of_any_encoding_are_merged_byte_by_byte(world: World, encoding: str) -> None:
    text = "".join(f"l{'i' if encoding == 'shift-jis' else 'í'}ne {number}\n" for number in range(10))

    def in_it(*words: tuple[str, str]) -> Files:
        new = text
        for old, word in words:
            new = new.replace(old, word)
        return {b"f": (FILE, new.encode(encoding))}

    came = world.merge(in_it(), in_it(("ne 1", "ne ONE")), in_it(("ne 8", "ne EIGHT")))
    assert came.files == in_it(("ne 1", "ne ONE"), ("ne 8", "ne EIGHT"))


def test_utf_16_is_binary_as_it_is_for_git(world: World) -> None:
    sides: list[Files] = [{b"f": (FILE, LINES.decode().replace(f"line {n}", "X").encode("utf-16"))} for n in (1, 8)]
    assert world.merge({b"f": (FILE, LINES.decode().encode("utf-16"))}, *sides).kinds == [("f", "binary")]


def test_a_submodule_is_taken_as_it_is(world: World) -> None:
    base, one, other = ({b"s": (SUBMODULE, commit.encode())} for commit in COMMITS)
    assert world.merge(base, one, base).files == one  # type: ignore[arg-type]
    assert world.merge(base, base, {}).files == {}  # type: ignore[arg-type]
    assert world.merge(base, one, other).kinds == [("s", "submodule")]  # type: ignore[arg-type]
    assert world.merge(base, one, {b"s": (FILE, b"x")}).kinds == [("s", "type")]  # type: ignore[arg-type]


def test_names_and_labels_of_any_bytes_survive(world: World) -> None:
    base: Files = {b"\xff\n`x`": (FILE, LINES)}
    sides: list[Files] = [{b"\xff\n`x`": (FILE, LINES.replace(b"line 1", word))} for word in (b"ONE", b"UNO")]
    came = world.merge(base, *sides, names=["A\n>>>>>>> A", "\udcff"])  # type: ignore[arg-type]
    assert came.kinds == [("\udcff\n`x`", "content")]
    assert b"<<<<<<< A?>>>>>>> A\n" in came.files[b"\xff\n`x`"][1]
