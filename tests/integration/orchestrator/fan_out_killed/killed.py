"""Kills a worker at one step of a fan-out, has another go on, and tells what became of the run. A program:

    killed.py PROVIDER KIND FOLDER [EVERY]

For each step (or each EVERYth) a worker executes a run of this kind (`declared`, `agent`, `asking`, `nested`) and dies there
without a word; another one goes on from the record. One line of JSON for each: where it died, how both ended, what is wrong.
`FANFOLD_HOME` says where all that is.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import update

from orchestrator.runs import tables as t
from orchestrator.runs.database import now
from orchestrator.runs.models import RunStatus, WorkerInfo
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.service import Service
from orchestrator.settings import Settings, load_settings
from orchestrator.spec import RunSpec
from orchestrator.worker.runner import Runner
from tests.integration.orchestrator.fan_out_killed.audit import SHAPES, Ended, audit
from tests.integration.orchestrator.fan_out_killed.points import Point, points

LATER = timedelta(hours=1)
"""Longer than any worker may be silent."""
DEADLINE = 60.0
"""Seconds for one worker's part."""
FILES = {"a.txt": "first\n", "b.txt": "first\n"}
SEEN = "first\nmore\nfirst\nmore\n"
"""Both files when each child has done its work once."""
SLOW_B = "test ${{ item }} = a || sleep 0.5"
"""One is at work when the other has ended."""
CHECK = {"verify": "cat a.txt b.txt"}
"""The check of a run, and of a merge."""


def declared(_: Path) -> dict[str, Any]:
    """A task of commands."""
    return {"fan_out": {"items": ["a", "b"], "command": f"{SLOW_B}; echo more >> ${{{{ item }}}}.txt", "merge": CHECK}, **CHECK}


def agent(folder: Path) -> dict[str, Any]:
    """A task of an agent with two subagents."""
    calls = [
        {"id": name, "name": "task", "args": {"subagent_type": "general-purpose", "description": f"append to {name}.txt"}}
        for name in ("a", "b")
    ]
    append = {"id": "do", "name": "execute", "args": {"command": "echo more >> {{ prompt.match('to (.*)') }}"}}
    subagent = {"when": "append to", "turns": [{"tool_calls": [append]}, {"text": "appended"}]}
    script = {"turns": [{"tool_calls": calls}, {"text": "done"}], "subagents": [subagent]}
    (folder / "script.yaml").write_text(yaml.safe_dump(script))
    return {"agent": {"prompt": "go", "model": "scripted:script.yaml", "merge": CHECK}, **CHECK}


def asking(folder: Path) -> dict[str, Any]:
    """A task of commands whose changes of one file are in conflict, which an agent settles."""
    settle = {"id": "do", "name": "execute", "args": {"command": "printf 'first\\nmore\\n' > a.txt"}}
    (folder / "resolver.yaml").write_text(yaml.safe_dump({"turns": [{"tool_calls": [settle]}, {"text": "settled"}]}))
    merge = {**CHECK, "rules": [{"path": "a.txt", "policy": "ask"}], "resolver": {"model": "scripted:resolver.yaml"}}
    tasks = [{"name": "a", "command": "echo a >> a.txt"}, {"name": "b", "command": "echo b >> a.txt; echo more >> b.txt"}]
    return {"fan_out": {"tasks": tasks, "merge": merge}, **CHECK}


def nested(folder: Path) -> dict[str, Any]:
    """A task of two agents, one of which has a subagent in a fork do its work."""
    delegate = {"subagent_type": "general-purpose", "description": "append to a.txt"}
    append = {"id": "do", "name": "execute", "args": {"command": "echo more >> {{ prompt.match('to (.*)') }}"}}
    parts = [
        {"when": "^lead", "turns": [{"tool_calls": [{"id": "a", "name": "task", "args": delegate}]}, {"text": "led"}]},
        {"when": "^append", "turns": [{"tool_calls": [append]}, {"text": "appended"}]},
    ]
    (folder / "script.yaml").write_text(yaml.safe_dump({"turns": [{"text": "nothing"}], "subagents": parts}))
    agents = {"a": "lead", "b": "append to b.txt"}
    model = {"model": "scripted:script.yaml", "isolation": "fork"}
    tasks = [{"name": name, "agent": {"prompt": prompt, **model}} for name, prompt in agents.items()]
    return {"fan_out": {"tasks": tasks}, **CHECK}


KINDS: dict[str, Callable[[Path], dict[str, Any]]] = {"declared": declared, "agent": agent, "asking": asking, "nested": nested}


def submitted(settings: Settings, provider: str, kind: str, folder: Path) -> str:
    """The id of a run that waits for a worker."""
    (folder / "project").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / "project" / name).write_text(text)
    task = {"inputs": {"path": "project"}, "sandbox": {"provider": provider}, **KINDS[kind](folder)}
    store = Store(open_database(settings.database, settings.home / "database.lock"))
    there = WorkerInfo("first", "here", os.getpid(), 1, now(), now())
    try:
        with Service(settings) as service:
            store.worker_alive(there)  # a run is sent when there is somebody to take it
            return service.submit(RunSpec.model_validate(task), base_dir=folder).id
    finally:
        store.worker_gone(there.id)
        store.close()


def work(settings: Settings, run_id: str, name: str) -> None:
    """A worker's part of a run."""
    # Opened here and not before the fork: no two processes may share a connection.
    store = Store(open_database(settings.database, settings.home / "database.lock"))
    runner = Runner(settings, store, name, nudge=lambda _: None)
    asyncio.run(asyncio.wait_for(runner.execute(run_id), DEADLINE))


def lose_leases(settings: Settings) -> None:
    """Have every worker be silent for long."""
    engine = open_database(settings.database, settings.home / "database.lock")
    c = t.runs.c
    with engine.begin() as connection:
        running = update(t.runs).where(c.status == RunStatus.RUNNING.value)
        connection.execute(running.values(heartbeat_at=now() - LATER))
    engine.dispose()


def in_a_process(part: Callable[[], None]) -> int:
    """Do something in a process of its own; its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            part()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def trial(settings: Settings, provider: str, kind: str, point: Point, folder: Path) -> dict[str, Any]:
    """A run whose first worker dies at a point."""
    run_id = submitted(settings, provider, kind, folder)

    def mortal() -> None:
        point.arm()
        work(settings, run_id, "first")

    codes = [in_a_process(mortal)]
    lose_leases(settings)
    before = Ended.now(settings, run_id)
    codes.append(in_a_process(lambda: work(settings, run_id, "second")))
    breaches = asyncio.run(audit(settings, run_id, before, seen=SEEN, provider=provider, shape=SHAPES[kind]))
    return {"point": str(point), "codes": codes, "expected": [point.end, 0], "breaches": breaches}


def main(provider: str, kind: str, folder: Path, every: int = 1) -> None:
    """See above."""
    importlib.import_module("orchestrator.agent.run")  # once, before the forks: it takes its time
    settings = load_settings()
    for number, point in enumerate(list(points(provider, kind))[::every]):
        print(json.dumps(trial(settings, provider, kind, point, folder / str(number))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *map(int, sys.argv[4:]))
