"""What was changed is the same by the layer that was written as by everything, and a lie leads to no state that cannot be."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.errors import PatchRefused
from sandboxes.workspace.changes import Changed, Edit, check_edits, difference, layer_difference
from sandboxes.workspace.manifest import EMPTY_FOLDER, FOLDER, FileEntry, check_manifest
from sandboxes.workspace.names import parents

NAMES = st.sampled_from(["a", "b", "c", "a-", "a0"])
"""Some sort around what is below a folder `a`."""
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def entry(path: str, content: str = "") -> FileEntry:
    if content == FOLDER:
        return FileEntry(path, FOLDER, 0, EMPTY_FOLDER)
    return FileEntry(path, "100644", len(content), hashlib.sha1(content.encode()).hexdigest())


def is_state(entries: dict[str, FileEntry]) -> bool:
    try:
        check_manifest(entries.values())
    except PatchRefused:
        return False
    return True


STATES = st.dictionaries(PATHS, st.sampled_from(["x", "y", FOLDER]), max_size=8).map(
    lambda state: {path: entry(path, content) for path, content in state.items()}
).filter(is_state)


def listing(state: dict[str, FileEntry], folder: str) -> set[str]:
    top = f"{folder}/" if folder else ""
    return {path.removeprefix(top).partition("/")[0] for path in state if path.startswith(top)}


def layer(before: dict[str, FileEntry], now: dict[str, FileEntry]) -> tuple[list[FileEntry], dict[str, set[str]]]:
    """What an overlay would hold: each folder with a change right in it, and those above it."""
    touched = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
    folders = {"", *(folder for path in touched for folder in parents(path)), *touched}
    there = {"", *(folder for path in now for folder in parents(path)), *(p for p, one in now.items() if one.mode == FOLDER)}
    written = [one for path, one in now.items() if path in touched and one.mode != FOLDER]
    return written, {folder: listing(now, folder) for folder in folders & there}


@given(STATES, STATES)
def test_a_layer_tells_what_everything_tells(before: dict[str, FileEntry], now: dict[str, FileEntry]) -> None:
    told = layer_difference(before, *layer(before, now), folders=True)
    assert told == difference(before, now.values(), folders=True)
    after = {path: one for path, one in before.items() if path not in told.removed}
    assert after | {one.path: one for one in told.entries} == now


@pytest.mark.parametrize("gone", ["a", "a-", "a0"])
def test_what_sorts_beside_a_folder_that_is_gone_is_still_there(gone: str) -> None:
    before = {f"{folder}/{name}": entry(f"{folder}/{name}", "x") for folder in ("a", "a-", "a0") for name in "xy"}
    now = {path: one for path, one in before.items() if not path.startswith(f"{gone}/")}
    assert layer_difference(before, *layer(before, now)) == Changed(removed=(f"{gone}/x", f"{gone}/y"))


@given(STATES, STATES, st.dictionaries(PATHS | st.just(""), st.sets(NAMES), max_size=4))
def test_whatever_a_layer_claims_what_is_left_can_be(
    before: dict[str, FileEntry], written: dict[str, FileEntry], listings: dict[str, set[str]]
) -> None:
    try:
        told = layer_difference(before, written.values(), listings, folders=True)
    except PatchRefused:
        return
    after = {path: one for path, one in before.items() if path not in told.removed}
    assert is_state(after | {one.path: one for one in told.entries})


def test_nothing_is_changed_in_a_closed_place_whatever_is_claimed() -> None:
    before = {"closed/x": entry("closed/x", "x"), "open": entry("open", "x")}
    claims = [entry("closed/y", "y"), entry("open", "y")]
    assert difference(before, claims, closed=["closed"]) == Changed((entry("open", "y"),))
    assert layer_difference(before, claims, {"": {"open"}}, closed=["closed"]) == Changed((entry("open", "y"),))


def test_empty_folders_are_looked_at_only_where_they_are_asked_for() -> None:
    before = {"d": entry("d", FOLDER)}
    assert difference(before, []) == Changed()
    assert layer_difference(before, [], {"": {"e"}, "e": set()}) == Changed()
    assert layer_difference(before, [], {"": {"e"}, "e": set()}, folders=True) == Changed((entry("e", FOLDER),), ("d",))


@pytest.mark.parametrize("path", ["../up", "/top", "a/../b", "a//b"])
def test_a_claim_of_a_path_that_cannot_be_is_refused(path: str) -> None:
    for tell in (lambda: difference({}, [entry(path)]), lambda: layer_difference({}, [entry(path)], {})):
        with pytest.raises(PatchRefused):
            tell()


def test_edits_come_in_order_and_contradictions_are_errors() -> None:
    edits = [Edit(path, None, entry(path, "x")) for path in ("b/c", "a", "b-c")]
    assert [edit.path for edit in check_edits(edits)] == ["a", "b-c", "b/c"]
    with pytest.raises(ValueError, match="below it"):
        check_edits([*edits, Edit("b", None, entry("b", FOLDER))])
    with pytest.raises(ValueError, match="twice"):
        check_edits([*edits, Edit("a", entry("a", "x"), None)])
