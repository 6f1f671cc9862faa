"""What a report says, and what strangers' names cannot make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandboxes.workspace.merge.report import EXCERPT, Failed, MergeReport, Verification, escaped
from sandboxes.workspace.merge.verified import Checked, LeftOut
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


def of_a_part(world: World, name: str = "C", output: str = "1 failed") -> MergeReport:
    """One child merged, one failed, one left out for each reason."""
    told = report(world, conflicting(b"ONE"), conflicting(b"UNO"))
    result = told.result
    left_out = (
        LeftOut(name, "check", output, 1, (), result.contents),
        LeftOut("D", "conflict", "", None, result.conflicts, result.contents),
        LeftOut("E", "undecided", "", None, (), result.contents),
    )
    kept = report(world, conflicting(b"ONE")).result
    verification = Verification("pytest -q", Checked(True, "2 passed", 0), 5)
    return MergeReport(kept, left_out, (Failed("B", "timeout", f"took longer\nthan {name}"),), verification)


def test_it_says_who_was_not_merged_and_why(world: World) -> None:
    page = of_a_part(world).to_markdown()
    assert "**Merged in part**: 4 children were not merged." in page
    assert "- B: timeout. took longer than C\n" in page
    assert "- C: with it, the check failed (exit code 1).\n\n```\n1 failed\n```\n" in page
    assert "- D: it does not fit to those before it.\n  - 'f': content, between A and B\n" in page
    assert "- E: whether it passes the check was not decided within the checks that are allowed.\n" in page
    assert "pytest -q passes on the result. It ran 5 times." in page


def test_its_json_says_the_same(world: World) -> None:
    data = json.loads(json.dumps(of_a_part(world, output="x" * 2 * EXCERPT).to_json()))
    assert [(one["name"], one["reason"], one["status"]) for one in data["not_merged"]] == [
        ("B", "failed", "timeout"),
        ("C", "check", None),
        ("D", "conflict", None),
        ("E", "undecided", None),
    ]
    assert data["not_merged"][1]["output"] == "x" * EXCERPT
    assert data["not_merged"][2]["conflicts"][0]["path"] == "f"
    assert data["verify"] == {"command": "pytest -q", "ok": True, "exit_code": 0, "output": "2 passed", "checks": 5}
    plain = report(world).to_json()
    assert (plain["not_merged"], plain["verify"]) == ([], None)


def test_a_base_that_fails_by_itself_is_told_as_that(world: World) -> None:
    failing = Verification("make test", Checked(False, "a" * EXCERPT + "the end", 2), 1)
    page = MergeReport(report(world).result, verification=failing).to_markdown()
    assert "make test fails on the base, without anybody's changes (exit code 2). It ran 1 time." in page
    assert "the end\n```\nThe last 8 KiB of 8199 bytes." in page
    unknown = Verification("make test", None, 200)
    assert "make test was not run on the result." in MergeReport(report(world).result, verification=unknown).to_markdown()


@pytest.mark.parametrize("name", HOSTILE)
def test_who_was_not_merged_is_shown_and_nothing_else(world: World, name: str) -> None:
    page = of_a_part(world, name, "```\n# out\x1b[2J").to_markdown()
    outside = page.split("````")[0] + page.split("````")[2]
    assert not any(char in outside for char in "<[]!_\x1b")
    assert page.count("\n# ") == 1
    assert "\x1b" not in page
