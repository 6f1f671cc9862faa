"""Children that change the same lines: what becomes of the run, of the tree, and of what each of them wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.runs.models import RunStatus
from tests.integration.orchestrator.fan_out.conftest import Ended

FILES = {"greeting.txt": "dear\nfriend\nyours\n", "names.txt": "names\n"}
PEOPLE = ("ann", "bob", "cid")
CHANGES: list[dict[str, Any]] = [
    {"name": name, "command": f"sed -i s/friend/{name}/ greeting.txt; echo {name} > {name}.txt"} for name in PEOPLE
]
OTHERS = ["ann.txt", "bob.txt", "cid.txt"]

Play = Callable[..., Ended]


def folded(play: Play, *rules: dict[str, str], **merge: Any) -> Ended:
    """The run of the three, with these rules; its last check shows the file that all of them changed."""
    return play(FILES, fan_out={"tasks": CHANGES, "merge": {"rules": rules, **merge}}, verify="cat greeting.txt")


def test_the_run_fails_and_its_patch_has_the_sides_between_markers(play: Play) -> None:
    done = folded(play)
    assert (done.run.status, done.run.exit_code) == (RunStatus.ERROR, 1)
    assert "2 conflicts left" in done.problem
    marked = [line for line in done.artifacts["patch.diff"].splitlines() if line.startswith(("+<<<<<<<", "+>>>>>>>"))]
    assert marked == ["+<<<<<<<<< ann + bob", "+<<<<<<< ann", "+>>>>>>> bob", "+>>>>>>>>> cid"]
    met = [(one["path"], one["children"]) for one in done.report["conflicts"]]
    assert met == [("greeting.txt", ["ann", "bob"]), ("greeting.txt", ["ann", "bob", "cid"])]
    assert [name for name in PEOPLE if f"+{name}" in done.artifacts.get(f"unmerged/{name}.patch", "")] == ["bob", "cid"]


def test_the_rest_of_what_they_did_is_merged_and_a_run_may_go_on_so(play: Play) -> None:
    done = play(
        FILES,
        fan_out={"tasks": CHANGES, "merge": {"on_conflict": "keep"}},
        verify="ls *.txt; grep '<<<' greeting.txt",
    )
    assert (done.problem, done.run.exit_code) == ("", 0)
    assert done.output.splitlines() == [*OTHERS, "greeting.txt", "names.txt", "<<<<<<<<< ann + bob", "<<<<<<< ann"]


@pytest.mark.parametrize(
    ("policy", "left"), [("ours", ["ann"]), ("theirs", ["cid"]), ("union", ["ann", "bob", "cid"])], ids=lambda value: str(value)
)
def test_a_policy_decides(play: Play, policy: str, left: list[str]) -> None:
    done = folded(play, {"path": "*.txt", "policy": policy})
    assert (done.problem, done.run.exit_code) == ("", 0)
    assert done.output.split() == ["dear", *left, "yours"]
    assert {one["settled"] for one in done.report["conflicts"]} == {True}


def test_a_policy_refuses_all_of_it(play: Play) -> None:
    done = folded(play, {"path": "greeting.txt", "policy": "fail"})
    assert (done.run.status, done.run.exit_code) == (RunStatus.ERROR, 1)
    assert "the policy allows no conflict" in done.problem
    assert done.artifacts.get("patch.diff", "") == ""
    assert all(f"+{name}" in done.artifacts[f"unmerged/{name}.patch"] for name in PEOPLE)


def test_a_command_makes_a_file_anew_once_several_have_changed_it(play: Play) -> None:
    lock = "cat *.part | sort > all.lock"
    tasks = [{"name": name, "command": f"echo {name} > {name}.part; {lock}"} for name in PEOPLE]
    merge = {"rules": [{"path": "all.lock", "command": lock}], "verify": "grep -c . all.lock | grep -x 3"}
    done = play(FILES, fan_out={"tasks": tasks, "merge": merge}, verify="cat all.lock")
    assert (done.problem, done.run.exit_code) == ("", 0)
    assert done.output.split() == list(PEOPLE)


def call(key: str, name: str, **args: str) -> dict[str, Any]:
    return {"id": key, "name": name, "args": args}


def test_an_agent_reads_every_side_of_a_conflict_and_settles_it(play: Play) -> None:
    folder, settle = "/conflicts/general-purpose-2", "printf 'dear\\nann and bob\\nyours\\n' > greeting.txt"
    ask = [call(name, "task", subagent_type="general-purpose", description=f"put {name}") for name in ("ann", "bob")]
    sides = [call(side, "read_file", file_path=f"{folder}/greeting.txt.{side}") for side in ("base", "ours", "theirs")]
    rest = [call("readme", "read_file", file_path=f"{folder}/README.md"), call("marked", "read_file", file_path="greeting.txt")]
    put = call("put", "execute", command="sed -i s/friend/{{ prompt.match('put (.*)') }}/ greeting.txt")
    turns = [
        {"tool_calls": ask},
        {"expect": {"result": "bob", "contains": ["In conflict: 'greeting.txt'", folder]}, "tool_calls": [*sides, *rest]},
        {"tool_calls": [call("settle", "execute", command=settle)]},
        {"text": "Settled."},
    ]
    script = {"turns": turns, "subagents": [{"when": "^put", "turns": [{"tool_calls": [put]}, {"text": "done"}]}]}
    agent = {"prompt": "go", "model": "scripted:script.yaml"}
    done = play(FILES, {"script.yaml": script}, agent=agent, verify="cat greeting.txt")
    assert done.problem == ""
    assert "greeting.txt" in done.results["readme"]
    assert all(word in done.results[side] for side, word in {"base": "friend", "ours": "ann", "theirs": "bob"}.items())
    assert "<<<<<<< general-purpose-1" in done.results["marked"]
    assert done.output == "dear\nann and bob\nyours\n"
