"""JSON by key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxes.workspace.merge.jsons import merge_json

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)),
    max_leaves=8,
)
patiently = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
objects = st.dictionaries(st.sampled_from("abcdef"), values, max_size=4)


def text(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def merged(base: Any, ours: Any, theirs: Any) -> Any:
    result = merge_json(text(base), text(ours), text(theirs))
    return None if result is None else json.loads(result)


def test_keys_of_both_are_there_and_removed_ones_are_not() -> None:
    base = {"keep": 1, "mine": 1, "thine": 1, "deep": {"x": 1, "y": 1}}
    ours = {"keep": 1, "mine": 2, "thine": 1, "deep": {"x": 2, "y": 1}, "a": 1}
    theirs = {"keep": 1, "mine": 1, "deep": {"x": 1, "y": 2}, "b": 1}
    assert merged(base, ours, theirs) == {"keep": 1, "mine": 2, "deep": {"x": 2, "y": 2}, "a": 1, "b": 1}


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        ({"a": 1}, {"a": 2}, {"a": 3}),
        ({"a": 1}, {"a": 2}, {}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 3]}),
        ({}, {"a": 1}, {"a": 2}),
        ({"a": 0}, {"a": 1}, {"a": True}),
        ([1], [2], [3]),
    ],
)
def test_one_value_changed_to_two_things_is_for_the_text_merge(base: Any, ours: Any, theirs: Any) -> None:
    assert merged(base, ours, theirs) is None


def test_new_keys_stand_behind_the_key_that_they_followed() -> None:
    result = merge_json(b'{"a":1,"z":1}', b'{"a":1,"m":1,"z":1}', b'{"first":1,"a":1,"n":1,"z":1}')
    assert result == b'{"first":1,"a":1,"n":1,"m":1,"z":1}'


@pytest.mark.parametrize(
    "layout",
    [
        b'{\n    "a": 1,\n    "b": [\n        1\n    ]\n}',
        b'{\n\t"a": 1,\n\t"b": [\n\t\t1\n\t]\n}\n',
        b'{"a": 1, "b": [1]}\n',
        b'{"a":1,"b":[1]}',
        b'{\r\n  "a": 1,\r\n  "b": [\r\n    1\r\n  ]\r\n}\r\n',
        '{"ä": "ö", "a": 1, "b": 1}'.encode(),
        b'{"\\u00e4": 1, "a": 1}',
    ],
)
def test_the_layout_of_ours_is_kept(layout: bytes) -> None:
    ours = layout.replace(b"1", b"2", 1)
    assert merge_json(layout, ours, layout) == ours


@pytest.mark.parametrize(
    "odd",
    [
        *(b"", b"{", b"\xff", b"\xef\xbb\xbf{}", b"[" * 100_000),
        *(b'{"a": NaN}', b'{"a": 1.50}', b'{"a": 1e5}', b'{"a": -0}', b'{"a": 1, "a": 2}'),
    ],
)
def test_what_is_no_plain_json_is_for_the_text_merge(odd: bytes) -> None:
    assert merge_json(b"{}", odd, b'{"b": 1}') is None
    assert merge_json(b"{}", b'{"b": 1}', odd) is None


def test_without_a_base_all_keys_are_new() -> None:
    assert merge_json(None, b'{"a": 1, "b": 1}', b'{"a": 1, "c": 1}') == b'{"a": 1, "c": 1, "b": 1}'


@given(objects, objects)
@patiently
def test_a_change_of_one_side_alone_is_taken_whole(base: Any, side: Any) -> None:
    assert merged(base, side, base) == side
    assert merged(base, base, side) == side
    assert merged(base, side, side) == side


@given(objects, objects, objects)
@patiently
def test_both_sides_are_merged_to_the_same_whichever_comes_first(base: Any, one: Any, other: Any) -> None:
    assert merged(base, one, other) == merged(base, other, one)
