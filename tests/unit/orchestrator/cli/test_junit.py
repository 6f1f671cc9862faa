"""JUnit reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from orchestrator.cli.junit import check_target, report, write_report
from orchestrator.cli.tally import Tally
from orchestrator.errors import BadInput
from orchestrator.runs.models import Event, Run, RunError


def cases(run: Run, tally: Tally, children: Sequence[Run] = ()) -> dict[str, list[str]]:
    suite = ET.fromstring(report(run, tally, children)).find("testsuite")
    assert suite is not None
    return {case.get("name", ""): [child.tag for child in case] for case in suite.findall("testcase")}


@pytest.fixture
def checked(event: Callable[..., Event]) -> Callable[[int], Tally]:
    """A tally with a check that ended so."""

    def ended(exit_code: int) -> Tally:
        tally = Tally()
        for one in (event("verify.started"), event("verify.finished", exit_code=exit_code)):
            tally.feed(one)
        return tally

    return ended


def test_a_success_is_a_case_without_a_complaint(a_run: Callable[..., Run]) -> None:
    assert cases(a_run(), Tally()) == {"run": []}


def test_a_check_is_a_case_of_its_own(a_run: Callable[..., Run], checked: Callable[[int], Tally]) -> None:
    assert cases(a_run(verify="make check"), checked(0)) == {"run": [], "verify: make check": []}


def test_a_failed_check_is_one_failure_and_not_two(a_run: Callable[..., Run], checked: Callable[[int], Tally]) -> None:
    run = a_run("error", RunError("task", "verify failed"), verify="make check")

    assert cases(run, checked(1)) == {"run": [], "verify: make check": ["failure"]}


def test_a_check_that_was_not_reached_is_skipped(a_run: Callable[..., Run]) -> None:
    run = a_run("error", RunError("task", "exit code 2"), verify="make check")

    assert cases(run, Tally()) == {"run": ["failure"], "verify: make check": ["skipped"]}


@pytest.mark.parametrize(
    ("status", "error"),
    [("error", RunError("infrastructure", "no engine")), ("timeout", None), ("cancelled", None)],
)
def test_what_is_no_fault_of_the_task_is_an_error(a_run: Callable[..., Run], status: str, error: RunError | None) -> None:
    assert cases(a_run(status, error), Tally()) == {"run": ["error"]}


def test_each_child_is_a_case_that_fails_by_itself(a_run: Callable[..., Run]) -> None:
    ended = {"run": a_run(), "a": a_run(), "b": a_run("error", RunError("task", "exit code 2")), "c": a_run("cancelled")}
    children = [replace(run, name=name) for name, run in ended.items()]

    found = cases(a_run(verify="v"), Tally(), children)

    assert found == {
        "run": [], "child: run": [], "child: a": [], "child: b": ["failure"], "child: c": ["error"], "verify: v": ["skipped"]
    }  # fmt: skip


def test_a_child_takes_the_time_since_it_began(a_run: Callable[..., Run]) -> None:
    run = a_run("error", RunError("task", "exit code 2"))
    assert run.started_at is not None
    late = replace(run, name="late", started_at=run.started_at + timedelta(seconds=2))

    root = ET.fromstring(report(a_run(), Tally(), [late, replace(run, name="never", started_at=None)]))

    assert [case.get("time") for case in root.iter("testcase")] == ["3.000", "1.000", "0.000"]
    assert root.find("testsuite/testcase/failure").attrib == {"message": "exit code 2", "type": "task"}  # type: ignore[union-attr]


def test_the_sums_are_in_the_suite(a_run: Callable[..., Run], checked: Callable[[int], Tally]) -> None:
    root = ET.fromstring(report(a_run("error", RunError("task", "x"), verify="v"), checked(1)))

    suite = root.find("testsuite")
    assert suite is not None
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped", "time")} == {
        "tests": "2", "failures": "1", "errors": "0", "skipped": "0", "time": "3.000"
    }  # fmt: skip


def test_what_xml_cannot_hold_is_replaced(a_run: Callable[..., Run], event: Callable[..., Event]) -> None:
    tally = Tally()
    tally.feed(event("command.output", text="a\x00b\x1b[31mc\ud800\uffff]]>&<d"))

    root = ET.fromstring(report(a_run("error", RunError("task", "bad \x01\x0b\uffff & <worse>")), tally))

    assert root.findtext(".//system-out") == "abc\ufffd\ufffd]]>&<d"
    assert root.findtext(".//failure") == "bad \ufffd & <worse>"


def test_a_place_that_cannot_be_written_is_refused_before_the_run(a_run: Callable[..., Run], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no file can be written there"):
        check_target(tmp_path / "missing" / "junit.xml")
    with pytest.raises(BadInput, match="no file can be written there"):
        check_target(tmp_path)
    check_target(tmp_path / "junit.xml")
    write_report(tmp_path / "junit.xml", a_run(), Tally())
    assert ET.parse(tmp_path / "junit.xml").getroot().tag == "testsuites"
