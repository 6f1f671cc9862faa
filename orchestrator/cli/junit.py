"""A run as a JUnit report: one test case for the run, one for each of its children, one for its check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from orchestrator.cli.children import time_of
from orchestrator.errors import BadInput
from orchestrator.text import clean, one_line

if TYPE_CHECKING:
    from orchestrator.cli.tally import Tally
    from orchestrator.runs.models import Run

# What XML 1.0 has no way to write, not even escaped.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_target(path: Path) -> None:
    """Raise `BadInput` when no file can be written there; asked before the run, not after an hour of it."""
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"--junit {path}: no file can be written there; name a file in a folder that exists")


def write_report(path: Path, run: Run, tally: Tally, children: Sequence[Run] = ()) -> None:
    """Write the report. Raises `BadInput` when it cannot be written."""
    try:
        path.write_bytes(report(run, tally, children))
    except OSError as exc:
        raise BadInput(f"--junit {path}: cannot be written: {exc.strerror}") from exc


def report(run: Run, tally: Tally, children: Sequence[Run] = ()) -> bytes:
    """The XML. A task that failed is a failure, everything else that went wrong is an error; of a child, too."""
    suite = ET.Element("testsuite", name=_legal(run.name), timestamp=run.created_at.strftime("%Y-%m-%dT%H:%M:%S"))
    cases = [_run_case(suite, run, tally), *(_child_case(suite, run, child) for child in children)]
    if run.spec.get("verify"):
        cases.append(_verify_case(suite, run, tally))
    seconds = _seconds(run)
    counts = {"tests": len(cases), "failures": _having(cases, "failure"), "errors": _having(cases, "error")}
    for element in (suite, root := ET.Element("testsuites", name="fanfold")):
        for name, number in counts.items():
            element.set(name, str(number))
        element.set("time", f"{seconds:.3f}")
    suite.set("skipped", str(_having(cases, "skipped")))
    root.append(suite)
    text: str = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _run_case(suite: ET.Element, run: Run, tally: Tally) -> ET.Element:
    seconds = max(_seconds(run) - tally.verify_seconds, 0.0)
    case = ET.SubElement(suite, "testcase", classname=_legal(run.name), name="run", time=f"{seconds:.3f}")
    if not tally.verify_failed:
        _ended(case, run)
    _output(case, tally)
    return case


def _child_case(suite: ET.Element, run: Run, child: Run) -> ET.Element:
    name, seconds = _legal(f"child: {one_line(child.name)}"), f"{time_of(child):.3f}"
    case = ET.SubElement(suite, "testcase", classname=_legal(run.name), name=name, time=seconds)
    _ended(case, child)
    return case


def _verify_case(suite: ET.Element, run: Run, tally: Tally) -> ET.Element:
    name = f"verify: {one_line(str(run.spec['verify']), 200)}"
    case = ET.SubElement(suite, "testcase", classname=_legal(run.name), name=_legal(name), time=f"{tally.verify_seconds:.3f}")
    if tally.verify_exit is None:
        ET.SubElement(case, "skipped", message="the run ended before its check")
    elif tally.verify_failed:
        _problem(case, "failure", run)
    return case


def _ended(case: ET.Element, run: Run) -> None:
    if run.status.value != "success":
        failed = run.status.value == "error" and run.error is not None and run.error.kind == "task"
        _problem(case, "failure" if failed else "error", run)


def _problem(case: ET.Element, tag: str, run: Run) -> None:
    message = run.error.message if run.error else f"the run ended as {run.status.value}"
    kind = run.error.kind if run.error else run.status.value
    ET.SubElement(case, tag, message=_legal(one_line(message, 300)), type=kind).text = _legal(clean(message))


def _output(case: ET.Element, tally: Tally) -> None:
    if tally.tail:
        ET.SubElement(case, "system-out").text = _legal(clean(tally.tail))


def _having(cases: list[ET.Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)


def _seconds(run: Run) -> float:
    return (run.finished_at - run.created_at).total_seconds() if run.finished_at else 0.0


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
