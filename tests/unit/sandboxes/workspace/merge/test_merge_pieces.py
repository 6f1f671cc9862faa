"""YAML and TOML by key, with the comments and the layout that somebody gave them."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxes.workspace.merge.bykey import Unmergeable, merge_values
from sandboxes.workspace.merge.pieces import CAP, merge_toml, merge_yaml

WORKFLOW = b"""\
# what CI does
name: ci   # its name
on:
  push: [main]
  # for pulls
  pull: true

jobs:
  test:
    steps:
      - run: |
          # not a comment
          make test

  # about lint
  lint:
    needs: test
"""
PROJECT = b"""\
# the project
[project]
name = "x"   # its name
dependencies = [
  "a",   # why
]

# tools
[tool.x]
level = 1
"""


def changed(text: bytes, *words: tuple[bytes, bytes]) -> bytes:
    for old, new in words:
        assert old in text
        text = text.replace(old, new)
    return text


def test_yaml_of_both_sides_is_there_with_its_comments() -> None:
    ours = changed(WORKFLOW, (b"ci  ", b"CI  "), (b"    needs: test\n", b"    needs: test\n    mine: 1\n"))
    new = b"    needs: test\n    thine: 2\n\n  # about docs\n  docs: {}\n"
    theirs = changed(WORKFLOW, (b"pull: true", b"pull: false"), (b"    needs: test\n", new))

    merged = merge_yaml(WORKFLOW, ours, theirs)

    new = b"    needs: test\n    thine: 2\n    mine: 1\n\n  # about docs\n  docs: {}\n"
    assert merged == changed(WORKFLOW, (b"ci  ", b"CI  "), (b"pull: true", b"pull: false"), (b"    needs: test\n", new))


def test_toml_of_both_sides_is_there_with_its_comments() -> None:
    ours = changed(PROJECT, (b"level = 1\n", b"level = 1\nmine = 2\n"))
    theirs = changed(PROJECT, (b'"a",', b'"a", "b",'), (b"level = 1\n", b"level = 1\n# thine\nthine = 3\n\n[[bin]]\nn = 1\n"))

    merged = merge_toml(PROJECT, ours, theirs)

    new = b"level = 1\n# thine\nthine = 3\nmine = 2\n\n[[bin]]\nn = 1\n"
    assert merged == changed(PROJECT, (b'"a",', b'"a", "b",'), (b"level = 1\n", new))


def test_what_has_no_newline_at_its_end_gets_one_before_what_follows() -> None:
    assert merge_yaml(b"a: 1", b"a: 1\nb: 1", b"a: 1\nc: 1") == b"a: 1\nc: 1\nb: 1"
    assert merge_toml(b"a = 1", b"a = 1\nb = 1", b"a = 1\nc = 1") == b"a = 1\nc = 1\nb = 1"


def test_without_a_base_all_keys_are_new() -> None:
    assert merge_yaml(None, b"a: 1\nb: 1\n", b"a: 1\nc: 1\n") == b"a: 1\nc: 1\nb: 1\n"
    assert merge_toml(None, b"a = 1\nb = 1\n", b"a = 1\nc = 1\n") == b"a = 1\nc = 1\nb = 1\n"


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        (b"a: 1\n", b"a: 2\n", b"a: 3\n"),
        (b"a: 1\nb: 1\n", b"a: 2\nb: 1\n", b"b: 1\n"),
        (b"a: [1]\n", b"a: [1, 2]\n", b"a: [1, 3]\n"),
        (b"- 1\n", b"- 1\n- 2\n", b"- 1\n- 3\n"),
        (b"{a: 1}\n", b"{a: 1, b: 2}\n", b"{a: 1, c: 3}\n"),
        (b"# c\na: 1\n", b"# mine\n\n---\na: 1\n", b"# thine\n\n---\na: 1\n"),
        (b"a: 1\n", b"a: 1\na: 1\nb: 1\n", b"a: 1\nc: 1\n"),
        (b"a: 1\n", b"a: &x 1\nb: *x\n", b"a: 1\nc: 1\n"),
        (b"a: 1\n", b"a: 1\n---\nb: 1\n", b"a: 1\nc: 1\n"),
        (b"a: 1\n", b"a: 1\nb: {\n", b"a: 1\nc: 1\n"),
        (b"a: 1\n", b"a: 1\nb: \xff\n", b"a: 1\nc: 1\n"),
        (b"a: 1\n", b"a: 1\nb: 2020-99-99\n", b"a: 1\nc: 1\n"),
        (b"a: 1\n", b"a: 1\nb: !!python/name:os.system 1\n", b"a: 1\nc: 1\n"),
        (b"a: 1\n", b"a: " + b"[" * 5000 + b"]" * 5000, b"a: 1\nc: 1\n"),
        (b"a: 1\n", b"a: 1\nb: " + b"x" * CAP, b"a: 1\nc: 1\n"),
    ],
)
def test_yaml_that_is_not_so_plain_is_for_the_text_merge(base: bytes, ours: bytes, theirs: bytes) -> None:
    assert merge_yaml(base, ours, theirs) is None
    assert merge_yaml(base, theirs, ours) is None


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        (b"a = 1\n", b"a = 2\n", b"a = 3\n"),
        (b"a = 1\n", b"a = \n", b"a = 1\nc = 1\n"),
        (b"[[a]]\nx = 1\n", b"[[a]]\nx = 1\n[[a]]\nx = 2\n", b"[[a]]\nx = 1\n[[a]]\nx = 3\n"),
        (b"a = 1\n", b"a = 1\nb.c = 1\n", b"a = 1\n[b]\nd = 1\n"),
        (b'a = """\nx = 1\n"""\n', b'a = """\nx = 1\ny = 1\n"""\n', b'a = """\nx = 1\nz = 1\n"""\n'),
    ],
)
def test_toml_that_is_not_so_plain_is_for_the_text_merge(base: bytes, ours: bytes, theirs: bytes) -> None:
    assert merge_toml(base, ours, theirs) is None


scalars = st.one_of(st.booleans(), st.integers(-5, 5), st.text("ab#: \n'\"", max_size=6))
keys = st.sampled_from(["a", "b", "c", "d", "e f", "#g"])
documents = st.dictionaries(keys, st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(keys, scalars, max_size=3)))
patiently = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(documents, documents, documents)
@patiently
def test_what_a_merge_of_yaml_means_is_what_the_values_come_to(base: Any, ours: Any, theirs: Any) -> None:
    texts = [yaml.safe_dump(value, sort_keys=False).encode() for value in (base, ours, theirs)]
    merged = merge_yaml(*texts)
    if merged is not None:
        assert yaml.safe_load(merged) == merge_values(base, ours, theirs)


@given(documents, documents)
@patiently
def test_a_change_of_one_side_alone_means_what_it_meant(base: Any, side: Any) -> None:
    before, after = (yaml.safe_dump(value, sort_keys=False).encode() for value in (base, side))
    for merged in (merge_yaml(before, after, before), merge_yaml(before, before, after)):
        assert merged is None or yaml.safe_load(merged) == side


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)), st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)))
@patiently
def test_plain_keys_are_merged_whenever_the_values_can_be(ours: dict[str, int], theirs: dict[str, int]) -> None:
    base = {"a": 0, "z": 0}
    sides = [{"z": 0, **ours}, {"z": 0, **theirs}]
    texts = [b"".join(b"%s = %d\n" % (key.encode(), value) for key, value in side.items()) for side in (base, *sides)]
    try:
        expected = merge_values(base, *sides)
    except Unmergeable:
        expected = None
    merged = merge_toml(*texts)
    assert (None if merged is None else tomllib.loads(merged.decode())) == expected
