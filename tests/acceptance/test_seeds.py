"""docs/seeds.md goes through the specification line by line: what it names has to be there, or it is stale."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "seeds.md"
FEWEST = {
    "Deep agents: harness": 60,
    "Backends (first version)": 65,
    "Backends (current)": 140,
    "API notes": 20,
    "Reference": 50,
    "adk-deepagents: Backends": 65,
}
"""The documents, and rows that each has at least."""
NOT_APPLICABLE = "not applicable"
MOST_NOT_APPLICABLE = 5
CELLS = re.compile(r"(?<!\\)\|")
NAME = re.compile(r"`([\w.]+)`")
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


class Row(NamedTuple):
    document: str
    statement: str
    where: str
    shown: str


def rows() -> list[Row]:
    """All rows of all tables, without their headings."""
    found, document = [], ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            document = line.removeprefix("## ")
        elif line.startswith("|") and not line.startswith(("| Statement |", "|---")):
            cells = [cell.strip() for cell in CELLS.split(line)[1:-1]]
            assert len(cells) == 3, line
            found.append(Row(document, *cells))
    return found


def applicable() -> list[Row]:
    return [row for row in rows() if row.where != NOT_APPLICABLE]


def is_there(name: str) -> bool:
    """Whether a dotted name is that of a module, or of something in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@cache
def names_of_tests(path: str) -> frozenset[str]:
    """The names of the tests in a file, those in classes too; none when there is no such file."""
    file = ROOT / path
    tree = ast.parse(file.read_text()) if file.is_file() else ast.Module([], [])
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds) and node.name.startswith("test_"))


def unknown_names(found: list[Row]) -> list[str]:
    names = {name for row in found for name in NAME.findall(row.where)}
    return sorted(name for name in names if not is_there(name))


def unknown_tests(found: list[Row]) -> list[str]:
    named = {test for row in found for test in TEST.findall(row.shown)}
    return sorted(f"{path}::{name}" for path, name in named if name not in names_of_tests(path))


@pytest.mark.parametrize(("document", "fewest"), FEWEST.items())
def test_every_document_is_gone_through(document: str, fewest: int) -> None:
    assert sum(row.document == document for row in rows()) >= fewest


def test_there_is_no_other_document() -> None:
    assert list(dict.fromkeys(row.document for row in rows())) == list(FEWEST)


def test_no_statement_of_a_document_comes_twice() -> None:
    told = [(row.document, row.statement) for row in rows()]
    assert [one for one in told if told.count(one) > 1] == []


def test_every_statement_is_somewhere_and_is_shown() -> None:
    for row in rows():
        assert row.statement, row
        assert row.shown, row
        if row.where != NOT_APPLICABLE:
            assert ", ".join(f"`{name}`" for name in NAME.findall(row.where)) == row.where, row
            assert ", ".join(f"`{path}::{name}`" for path, name in TEST.findall(row.shown)) == row.shown, row


def test_little_does_not_apply_and_the_reason_is_given() -> None:
    others = [row for row in rows() if row.where == NOT_APPLICABLE]
    assert len(others) <= MOST_NOT_APPLICABLE
    assert all(len(row.shown) > 20 and "`tests/" not in row.shown for row in others)


def test_every_name_is_there() -> None:
    assert unknown_names(applicable()) == []


def test_every_test_is_there() -> None:
    assert unknown_tests(applicable()) == []


def test_a_name_or_a_test_that_went_away_is_noticed() -> None:
    gone = Row("x", "x", "`sandboxes.backends.GoneBackend`, `gone.module`, `sandboxes.protocol.LsResult`", "")
    assert unknown_names([gone]) == ["gone.module", "sandboxes.backends.GoneBackend"]
    this = "tests/acceptance/test_seeds.py"
    shown = f"`{this}::test_every_name_is_there`, `{this}::test_gone`, `tests/gone.py::test_x`"
    assert unknown_tests([Row("x", "x", "x", shown)]) == [f"{this}::test_gone", "tests/gone.py::test_x"]
