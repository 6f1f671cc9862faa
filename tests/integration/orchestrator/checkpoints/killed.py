"""Kills a process at one of its writes to the record, goes on in another, and tells what the tools did. A program:

    killed.py DATABASE_URL FOLDER [EVERY]

First an agent runs through, and its writes are counted. Then, for each write (or each EVERYth), a process runs the same agent
and ends at that write without a word, in turns right before it and right after it, and another process goes on from the
record. One line of JSON for each: where it was killed, what the tools did, how often they were begun, and the conversation.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from orchestrator.agent.harness import SubAgent, create_deep_agent
from orchestrator.agent.heldback import HeldBackSaver, Noted
from orchestrator.agent.middleware import ModelCalls
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel
from orchestrator.runs.checkpointing import Checkpoints
from orchestrator.runs.database import now
from orchestrator.runs.models import NewRun
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from sandboxes.toolbox.calls import call_scope, next_call_id

KILLED = 9
LATER = timedelta(hours=1)
"""Longer than any worker may be silent."""

LEAD = """
turns:
  - tool_calls:
      - {id: a1, name: mark, args: {what: one}}
      - {id: a2, name: mark, args: {what: two}}
      - {id: a3, name: mark, args: {what: three}}
  - tool_calls:
      - {id: b1, name: task, args: {subagent_type: helper, description: Help.}}
      - {id: b2, name: mark, args: {what: beside}}
  - tool_calls:
      - {id: c1, name: mark, args: {what: last}}
  - text: done
"""
HELPER = """
turns:
  - tool_calls:
      - {id: h1, name: mark, args: {what: inside-one}}
      - {id: h2, name: mark, args: {what: inside-two}}
  - tool_calls:
      - {id: h3, name: mark, args: {what: inside-three}}
  - text: helped
"""


class Mortal:
    """A record at one of whose writes the process ends."""

    def __init__(self, record: Checkpoints, at: int, *, after: bool) -> None:
        self._record, self._at, self._after = record, at, after
        self._lock = threading.Lock()
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._record, name)

    def note(self, changes: Any) -> None:
        """What is noted at once, and perhaps the end."""
        with self._lock:
            self.writes += 1
            if self.writes != self._at:
                self._record.note(changes)
                return
            if self._after:
                self._record.note(changes)
            os._exit(KILLED)


class Ledger:
    """A tool whose calls are done once for each call id, as those in a sandbox are."""

    def __init__(self, folder: Path) -> None:
        self._begun, self._done = folder / "begun", folder / "done"
        self._done.touch()

    def tool(self) -> Any:
        """The tool."""

        @tool
        async def mark(what: str) -> str:
            """Leave a mark."""
            key = str(next_call_id())
            with self._begun.open("a") as file:
                file.write(f"{what}\n")
            if key not in self._done.read_text().split():
                with self._done.open("a") as file:
                    file.write(f"{what} {key}\n")
            return f"marked {what}"

        return mark

    def told(self) -> dict[str, Any]:
        """What was done, and how often each was begun."""
        return {"done": sorted(self._done.read_text().split()[::2]), "begun": sorted(self._begun.read_text().split())}


async def run(record: Any, run_id: str, ledger: Ledger) -> list[str]:
    """Begin or go on; what was said."""
    lead, helper = (ScriptedChatModel(script=load_script(text.encode(), "s")) for text in (LEAD, HELPER))
    saver = HeldBackSaver(record)
    agent = create_deep_agent(
        lead,
        [ledger.tool()],
        subagents=[SubAgent(name="helper", description="Helps.", system_prompt="Help.", model=helper)],
        checkpointer=saver,
        around=[Noted(saver), ModelCalls("scripted:s", None)],
    )
    config: Any = {"configurable": {"thread_id": run_id}, "recursion_limit": 200}
    with call_scope(run_id):
        begun = bool((await agent.aget_state(config)).values)
        given: Any = None if begun else {"messages": [HumanMessage("Go.")]}
        async for _ in agent.astream(given, config, stream_mode="updates", durability="sync"):
            pass
    return [str(message.text) for message in (await agent.aget_state(config)).values["messages"]]


def worker(database: str, folder: Path, run_id: str, at: int, *, after: bool) -> None:
    """One process's part of a run: until the write at which it ends, or to the end of the run."""
    claims = len(list(folder.glob("claim-*")))
    (folder / f"claim-{claims}").touch()
    # Opened here and not before the fork: no two processes may share a connection.
    engine = open_database(database, folder.parent / "lock")
    store = Store(engine, lambda: now() + claims * LATER)
    if not claims:
        store.add(NewRun(run_id, "name", {}))
    lease = store.claim(run_id, f"worker-{claims}")
    assert lease is not None
    record, ledger = Mortal(Checkpoints(engine, lease), at, after=after), Ledger(folder)
    said = asyncio.run(run(record, run_id, ledger))
    (folder / "result").write_text(json.dumps({"said": said, "writes": record.writes, **ledger.told()}))
    engine.dispose()


def in_a_process(*args: Any, **kwargs: Any) -> int:
    """Do a worker's part in a process of its own; its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            worker(*args, **kwargs)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def trial(database: str, home: Path, at: int, *, after: bool) -> dict[str, Any]:
    """A run whose first worker is killed at a write (0: at none)."""
    run_id = f"run-{at:03}{'a' if after else 'b'}"
    folder = home / run_id
    folder.mkdir()
    codes = [in_a_process(database, folder, run_id, at, after=after)]
    if codes == [KILLED]:
        codes.append(in_a_process(database, folder, run_id, 0, after=after))
    result = folder / "result"
    found = json.loads(result.read_text()) if result.exists() else {}
    return {"at": at, "after": after, "codes": codes, **found}


def main(database: str, home: Path, every: int = 1) -> None:
    """See above."""
    whole = trial(database, home, 0, after=True)
    print(json.dumps(whole), flush=True)
    for number, at in enumerate(range(1, whole["writes"] + 1, every)):
        print(json.dumps(trial(database, home, at, after=number % 2 == 0)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
