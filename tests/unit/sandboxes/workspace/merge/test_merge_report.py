"""What a report says, and what strangers' names cannot make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandboxes.workspace.merge.report import EXCERPT, MergeReport, escaped
from tests.unit.sandboxes.workspace.merge.worlds import LINES, World, always
from tests.unit.sandboxes.workspace.trees import FILE, Files


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def report(world: World, *sides: Files, choice: str = "markers", names: object = "AB") -> MergeReport:
    came = world.merge({b"f": (FILE, LINES)}, *sides, policy=always(choice), names=names)  # type: ignore[arg-type]
    return MergeReport(came.result)


def conflicting(word: bytes, path: bytes = b"f") -> Files:
    return {path: (FILE, LINES.replace(b"line 1", word))}


def test_it_says_who_changed_what_and_what_is_left_to_decide(world: World) -> None:
    page = report(world, {**conflicting(b"ONE"), b"new": (FILE, b"x")}, conflicting(b"UNO")).to_markdown()
    assert "**To be decided**: 1 path in conflict." in page
    assert "| A | 2 | 0 | 0 |" in page
    assert "| B | 1 | 1 | 0 |" in page
    assert "content, between A and B: to be decided." in page
    assert "- 'f': A, B" in page
    assert "- 'new': A" in page
    assert "<<<<<<< A\nONE\n" in page


@pytest.mark.parametrize(
    ("choice", "said"),
    [("ours", "settled by the policy (ours)"), ("ask", "to be asked about"), ("fail", "**Refused**")],
)
def test_it_says_what_the_policy_did(world: World, choice: str, said: str) -> None:
    assert said in report(world, conflicting(b"ONE"), conflicting(b"UNO"), choice=choice).to_markdown()


def test_a_merge_of_nothing_is_told_as_one(world: World) -> None:
    page = report(world).to_markdown()
    assert "**Merged.** Nothing is left to decide." in page
    assert "Nobody changed anything." in page


def test_its_json_is_json_whatever_the_names(world: World) -> None:
    sides: list[Files] = [{**conflicting(word), b"\xff": (FILE, word)} for word in (b"ONE", b"UNO")]
    data = json.loads(json.dumps(report(world, *sides).to_json()))
    assert [conflict["path"] for conflict in data["conflicts"]] == ["f", "\udcff"]
    assert data["conflicts"][0]["children"] == ["A", "B"]
    assert data["conflicts"][0]["ours"]["mode"] == FILE
    assert data["children"][1] == {"name": "B", "changed": ["f", "\udcff"], "conflicts": ["f", "\udcff"], "left_out": []}
    assert (data["clean"], data["refused"]) == (False, False)


HOSTILE = [
    *("</table><script>x</script>", "<!--", "a | b", "[x](javascript:x)", "![x](http://x)"),
    *("`x` **y** _z_", "a\n# b", "\x1b[31m"),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_shown_and_nothing_else(world: World, name: str) -> None:
    path = name.replace("/", "_").encode()
    page = report(world, conflicting(b"ONE", path), conflicting(b"UNO", path), names=[name, "B"]).to_markdown()
    outside = page.split("```")[0] + page.split("```")[2]
    assert not any(char in outside for char in "<[]!_\x1b")
    assert outside.count("\n# ") == 0
    assert [line.count("|") for line in page.splitlines() if line.startswith("| ")] == [5, 5, 5]
    assert not any(char in escaped(name) for char in "<>[]()!*_`|\n\x1b")


def test_a_text_cannot_leave_its_block(world: World) -> None:
    word = b"````\n# out\x1b[2J"
    page = report(world, conflicting(word), conflicting(b"UNO")).to_markdown()
    assert page.count("\n`````\n") == 2
    assert "\x1b" not in page


def test_a_long_text_is_cut(world: World) -> None:
    page = report(world, conflicting(b"x" * 2 * EXCERPT), conflicting(b"UNO")).to_markdown()
    assert len(page) < 2 * EXCERPT
    assert "The first 8 KiB of" in page
