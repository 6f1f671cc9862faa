"""YAML of strangers is plain, finite data."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import BadInput
from orchestrator.yamlfile import MAX_BYTES, MAX_DEPTH, parse_yaml, read_yaml


def test_a_document_knows_the_line_of_each_key() -> None:
    document = parse_yaml(b"a: 1\nb:\n  - c: 2\n  - 3\n", source="x.yaml")
    assert document.value == {"a": 1, "b": [{"c": 2}, 3]}
    assert document.where(("b", 0, "c")) == "x.yaml:3"
    assert document.where(("b", 1)) == "x.yaml:4"
    assert document.where(("nowhere",)) == "x.yaml"


def test_an_alias_and_a_merge_are_fine() -> None:
    assert parse_yaml(b"a: &x {k: 1}\nb: *x\nc: {<<: *x, l: 2}\n", source="x").value["c"] == {"k": 1, "l": 2}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a: 1\nb: 2\na: 3\n", "x.yaml:3: the key 'a' stands here and in line 1"),
        (b"a: {b: 1, b: 2}", "the key 'b' stands here and in line 1"),
        (b"a: [", "x.yaml:2:1: not valid YAML"),
        (b"a: !!python/object/apply:os.system ['true']", "not valid YAML"),
        (b"a: 1\n---\nb: 2\n", "x.yaml:2: a second document begins here"),
        (b"\xff\xfe\xfa", "x.yaml: is not UTF-8 text"),
        (b"a: *nowhere", "not valid YAML"),
        (b"a: 2024-13-45", "month must be in 1..12"),
        (b"a: &a [*a]", "contains itself"),
        (b"[" * (MAX_DEPTH + 1), f"nested deeper than {MAX_DEPTH} levels"),
        (b"[" * 500_000, f"nested deeper than {MAX_DEPTH} levels"),
        (b"- " * 400_000, f"nested deeper than {MAX_DEPTH} levels"),
    ],
)
def test_what_is_not_plain_data_is_refused(data: bytes, expected: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_yaml(data, source="x.yaml")
    assert expected in str(caught.value)


def test_a_bomb_of_aliases_is_refused_without_going_off() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    with pytest.raises(BadInput, match="once its aliases are expanded"):
        parse_yaml("\n".join(levels).encode(), source="x.yaml")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(BadInput, match="larger than 1024 KiB"):
        read_yaml(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_yaml(tmp_path)
