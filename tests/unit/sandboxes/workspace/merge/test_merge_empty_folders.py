"""Empty folders: they follow what was done to them, and never conflict."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.workspace.manifest import EMPTY_FOLDER
from sandboxes.workspace.merge import Policy
from tests.unit.sandboxes.workspace.merge.worlds import LINES, World
from tests.unit.sandboxes.workspace.trees import FILE, FOLDER, Files

EMPTY = (FOLDER, b"")
TEXT = (FILE, LINES)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("base", "sides", "result"),
    [
        pytest.param({}, [{b"d": EMPTY}], {b"d": EMPTY}, id="made"),
        pytest.param({b"d/f": TEXT}, [{b"d": EMPTY}], {b"d": EMPTY}, id="emptied"),
        pytest.param({b"f": TEXT}, [{b"f": EMPTY}], {b"f": EMPTY}, id="in the place of a file"),
        pytest.param({b"d": EMPTY}, [{b"d": EMPTY}, {}], {}, id="removed"),
        pytest.param({b"d": EMPTY}, [{b"d/f": TEXT}, {b"d": EMPTY}], {b"d/f": TEXT}, id="filled"),
        pytest.param({b"d": EMPTY}, [{b"d": TEXT}, {b"d": EMPTY}], {b"d": TEXT}, id="a file in its place"),
        pytest.param({b"d": EMPTY}, [{b"d": TEXT}, {}], {b"d": TEXT}, id="a file in its place, and removed"),
        pytest.param({b"d": EMPTY}, [{b"d/e": EMPTY}], {b"d/e": EMPTY}, id="one in the other"),
        pytest.param({}, [{b"d": EMPTY}, {b"d": EMPTY}], {b"d": EMPTY}, id="made twice"),
        pytest.param({}, [{b"d": EMPTY}, {b"d/f": TEXT}], {b"d/f": TEXT}, id="made, and filled by another"),
        pytest.param({}, [{b"d/e": EMPTY}, {b"d": TEXT}], {b"d": TEXT}, id="made below another's file"),
        pytest.param({b"d/f": TEXT}, [{b"d": EMPTY}, {}], {b"d": EMPTY}, id="emptied, and removed by another"),
    ],
)
def test_a_folder_is_empty_where_nothing_else_is(world: World, base: Files, sides: list[Files], result: Files) -> None:
    for order in (sides, sides[::-1]):
        came = world.merge(base, *order)
        assert came.files == result
        assert not came.result.conflicts


def test_a_file_that_one_changed_in_a_folder_that_another_emptied_is_a_conflict_of_the_file_alone(world: World) -> None:
    came = world.merge({b"d/f": TEXT}, {b"d/f": (FILE, b"changed\n")}, {b"d": EMPTY})
    assert came.kinds == [("d/f", "modify/delete")]
    assert came.files == {b"d/f": (FILE, b"changed\n")}


def test_it_is_known_whose_doing_an_empty_folder_is(world: World) -> None:
    came = world.merge(
        {b"gone": EMPTY, b"full": EMPTY, b"f": TEXT}, {b"full/x": TEXT, b"f": TEXT}, {b"full": EMPTY, b"f": EMPTY}
    )
    assert came.files == {b"f": EMPTY, b"full/x": TEXT}
    assert came.result.merged == {"f": ("B",), "full": ("A",), "full/x": ("A",), "gone": ("A", "B")}
    assert came.result.per_child[1].changed == ("f", "gone")


def test_a_folder_whose_new_files_are_not_merged_is_still_there(world: World) -> None:
    came = world.merge({b"log": EMPTY}, {b"log/x.log": TEXT}, policy=Policy(exclude=("*.log",)))
    assert came.files == {b"log": EMPTY}
    assert came.result.merged == {}


def test_the_id_of_a_tree_is_that_of_its_files(world: World) -> None:
    assert world.tree({b"f": TEXT, b"d": EMPTY}).id == world.tree({b"f": TEXT}).id
    assert world.tree({b"d": EMPTY}).id == EMPTY_FOLDER


_NAMES = st.sampled_from([b"a", b"b", b"a/x", b"a/y", b"a/x/1", b"b/x"])
_NODES = st.sampled_from([EMPTY, EMPTY, TEXT, (FILE, b"other\n")])


def _possible(files: Files) -> Files:
    return {path: node for path, node in files.items() if not any(other.startswith(path + b"/") for other in files)}


_workspaces = st.dictionaries(_NAMES, _NODES).map(_possible)


@given(base=_workspaces, sides=st.lists(_workspaces, max_size=3))
@settings(max_examples=200, deadline=None)
def test_empty_folders_change_nothing_about_files_and_are_nowhere_else(
    tmp_path_factory: pytest.TempPathFactory, base: Files, sides: list[Files]
) -> None:
    world = World(tmp_path_factory.mktemp("world"))
    with_folders = world.merge(base, *sides)
    without = world.merge(_files(base), *map(_files, sides))
    assert _files(with_folders.files) == without.files
    assert with_folders.result.conflicts == without.result.conflicts
    assert _possible(with_folders.files) == with_folders.files
    differing = {path for path in with_folders.files.keys() | base.keys() if with_folders.files.get(path) != base.get(path)}
    assert {path.encode() for path in with_folders.result.merged} == differing
    if len(sides) == 1:
        assert with_folders.files == sides[0]


def _files(files: Files) -> Files:
    return {path: node for path, node in files.items() if node != EMPTY}
