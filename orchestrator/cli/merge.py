"""`fanfold merge`: what several made of copies of one folder, folded into one."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import Output, OutputOption, folder
from orchestrator.errors import BadInput, TaskFailed

if TYPE_CHECKING:
    from sandboxes.workspace.merge import Conflict, MergeResult, Policy
    from sandboxes.workspace.merge.report import MergeReport

CONFLICTS = TaskFailed.exit_code
SHOWN = 100
"""Conflicts that are listed; the report has all."""

Base = Annotated[Path, typer.Argument(metavar="BASE", help="The folder that all of them started from.")]
Children = Annotated[list[Path], typer.Argument(metavar="CHILD...", help="What became of it, in the order of merging.")]
Into = Annotated[Path, typer.Option("--into", metavar="OUT", help="Where the result goes: a new folder, or an empty one.")]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="FILE|PATTERN=POLICY",
        help="What to do about conflicts: markers, ours, theirs, union, fail or ask. Repeatable; the last that matches holds.",
    ),
]
Report = Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a report: JSON for .json, else Markdown.")]


def merge(
    base: Base,
    children: Children,
    into: Into,
    policy: Policies = None,
    report: Report = None,
    output: OutputOption = Output.text,
) -> int:
    """Merge folders that started as copies of one.

    Ends with 0 when everything is merged, and 1 when conflicts are left: texts in OUT have markers then, and of other files
    it has what came first. Where a policy says `fail`, nothing is written. What lies in .git is not merged.
    """
    from orchestrator.mergepolicy import parse_policies
    from sandboxes.workspace.merge.report import MergeReport

    folder("BASE", base)
    for child in children:
        folder("CHILD", child)
    _check_places(into, report)
    rules = parse_policies(policy or ())
    with tempfile.TemporaryDirectory(prefix="fanfold-merge-") as place:
        told = MergeReport(_merge(base, children, rules, Path(place)))
        if told.result.refused:
            _write_report(told, report)
        else:
            _write(told, into, report)
    _show(told, into, output)
    if told.result.refused:
        raise TaskFailed(f"the policy allows no conflict at {_paths(told.result)}; nothing was written to {into}")
    return 0 if told.result.clean else CONFLICTS


def _check_places(into: Path, report: Path | None) -> None:
    if not into.resolve().parent.is_dir():
        raise BadInput(f"--into {into}: its parent is no folder; make it first")
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise BadInput(f"--into {into}: there is something already; name a folder that is not there, or an empty one")
    if report is not None and (report.is_dir() or not report.parent.is_dir()):
        raise BadInput(f"--report {report}: no file can be written there; name a file in a folder that exists")


def _merge(base: Path, children: list[Path], policy: Policy, place: Path) -> MergeResult:
    from sandboxes.errors import ArchiveRefused, InvalidSpec
    from sandboxes.workspace.folders import read_folder
    from sandboxes.workspace.merge import Child, merge

    store = place / "store"
    try:
        root = read_folder(base, place / "base.tar", store)
        sides = []
        for number, path in enumerate(children):
            tree = read_folder(path, place / f"{number}.tar", store)
            sides.append(Child.of(str(path), root, tree, tree.store))
        return merge(root, sides, policy)
    except (ArchiveRefused, InvalidSpec) as exc:
        raise BadInput(str(exc)) from exc


def _write(told: MergeReport, into: Path, report: Path | None) -> None:
    """The folder and the report, or neither."""
    from sandboxes.workspace.folders import write_folder

    try:
        write_folder(told.result.tree, told.result.contents.get, into, before=lambda: _write_report(told, report))
    except OSError as exc:
        raise BadInput(f"--into {into}: cannot be written: {exc.strerror}") from exc


def _write_report(told: MergeReport, report: Path | None) -> None:
    if report is None:
        return
    text = json.dumps(told.to_json(), indent=2) + "\n" if report.suffix == ".json" else told.to_markdown()
    try:
        report.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise BadInput(f"--report {report}: cannot be written: {exc.strerror}") from exc


def _show(told: MergeReport, into: Path, output: Output) -> None:
    from orchestrator.cli.shapes import write_json
    from orchestrator.text import count, one_line

    result = told.result
    if output is Output.json:
        write_json(told.to_json())
        return
    for conflict in result.conflicts[:SHOWN]:
        sys.stdout.write(f"{_line(conflict)}\n")
    if len(result.conflicts) > SHOWN:
        sys.stdout.write(f"... and {len(result.conflicts) - SHOWN} more\n")
    if not result.refused:
        left = sum(not conflict.settled for conflict in result.conflicts)
        changed = count(len(result.merged), "file")
        sys.stdout.write(f"{one_line(str(into))}: {changed} changed by {_children(result)}, {count(left, 'conflict')} left\n")
    sys.stdout.flush()


def _children(result: MergeResult) -> str:
    from orchestrator.text import count

    number = len(result.per_child)
    return count(number, "child") if number == 1 else f"{number} children"


def _line(conflict: Conflict) -> str:
    from orchestrator.text import one_line
    from sandboxes.workspace.names import shown

    word = "settled " if conflict.settled else "conflict"
    names = ", ".join(one_line(name) for name in conflict.children)
    command = f"; make it anew: {one_line(conflict.command)}" if conflict.command else ""
    return f"{word}  {shown(conflict.path)}  {conflict.kind}, {conflict.choice} ({names}){command}"


def _paths(result: MergeResult) -> str:
    from sandboxes.workspace.names import shown

    paths = list(dict.fromkeys(shown(one.path) for one in result.conflicts if one.choice == "fail" and not one.settled))
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
