"""The runs: agents that follow a script, and plain commands. Each knows what has to be true of it in the end."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import yaml

from orchestrator.runs.models import RunStatus

SUCCESS = frozenset({RunStatus.SUCCESS})
LABEL = "chaos"
"""Every run has this label: its number."""
LEDGER = "ledger"
"""The file in the sandbox to which each call of a tool appends its line."""


@dataclass(frozen=True)
class Work:
    """A task, and what has to have happened when it has ended."""

    kind: str
    task: dict[str, Any]
    script: str | None = None
    """What its agent's model says."""
    statuses: frozenset[RunStatus] = SUCCESS
    """How it may end."""
    ledger: tuple[str, ...] = ()
    """The lines of its ledger, each once."""
    ordered: bool = True
    """Whether they stand in this order."""
    calls: tuple[str, ...] = ()
    """Ids of the tool calls of its main agent."""
    output: str = ""
    """What its command prints."""
    children: int = 0
    """Runs below it, of each attempt that begins from nothing."""
    failures: int = 0
    """Attempts that fail by themselves."""
    questions: int = 0
    """How often a person is asked."""
    cancel_after: float | None = None
    """Seconds after which somebody wants it to stop."""


def make_works(count: int, rng: random.Random, *, provider: str = "local") -> list[Work]:
    """So many runs of every kind, mixed; the same ones for the same state of `rng`."""
    kinds, weights = zip(*_KINDS, strict=True)
    chosen = [*kinds[:count], *rng.choices(kinds, weights, k=max(0, count - len(kinds)))]
    rng.shuffle(chosen)
    return [_placed(make(rng), number, provider) for number, make in enumerate(chosen)]


def _placed(work: Work, number: int, provider: str) -> Work:
    common = {"name": f"{work.kind}-{number}", "labels": {LABEL: str(number)}, "sandbox": {"provider": provider}}
    return replace(work, task={"timeout": 600, **work.task, **common})


def _append(line: str, seconds: float) -> str:
    return f"echo {line} >> {LEDGER}; sleep {seconds:.2f}"


def _execute(call: str, line: str, seconds: float) -> dict[str, Any]:
    return {"id": call, "name": "execute", "args": {"command": _append(line, seconds)}}


def _agent(kind: str, turns: list[dict[str, Any]], lines: list[str], **more: Any) -> Work:
    calls = tuple(call["id"] for turn in turns for call in turn.get("tool_calls", ()))
    task = {"agent": {"prompt": "main", "model": "scripted:script.yaml"}, "outputs": {"files": [LEDGER]}}
    script = yaml.safe_dump({"turns": [*turns, {"text": "done"}]})
    return Work(kind, task, script, ledger=tuple(lines), calls=calls, **more)


def _steps(rng: random.Random) -> Work:
    """One call after the other; each second one writes a file, whose content the ledger repeats."""
    turns, lines = [], []
    for n in range(rng.randint(3, 7)):
        if n % 2:
            write = {"id": f"w{n}", "name": "write_file", "args": {"file_path": f"made/{n}", "content": f"written {n}\n"}}
            turns.append({"tool_calls": [write]})
            turns.append({"tool_calls": [{"id": f"c{n}", "name": "execute", "args": {"command": f"cat made/{n} >> {LEDGER}"}}]})
            lines.append(f"written {n}")
        else:
            turns.append({"tool_calls": [_execute(f"c{n}", f"step {n}", rng.uniform(0.1, 1.2))]})
            lines.append(f"step {n}")
    return _agent("steps", turns, lines)


def _parallel(rng: random.Random) -> Work:
    """Several calls in each answer."""
    turns, lines = [], []
    for n in range(rng.randint(2, 3)):
        names = [f"c{n}_{m}" for m in range(rng.randint(2, 4))]
        turns.append({"tool_calls": [_execute(name, name, rng.uniform(0.1, 1.5)) for name in names]})
        lines += names
    return _agent("parallel", turns, lines, ordered=False)


def _subagent(rng: random.Random) -> Work:
    """An agent and its subagent follow the same script; the prompt tells their lines apart. A subagent has no subagents."""
    first, last = rng.uniform(0.1, 0.8), rng.uniform(0.1, 0.8)
    turns = [
        {"tool_calls": [_execute("c0", "{{ prompt }} 0", first)]},
        {"tool_calls": [{"id": "t", "name": "task", "args": {"description": "child", "subagent_type": "general-purpose"}}]},
        {"tool_calls": [_execute("c1", "{{ prompt }} 1", last)]},
    ]
    return _agent("subagent", turns, ["main 0", "child 0", "child 1", "main 1"], children=1)


def _fan_out(rng: random.Random) -> Work:
    """Commands in forks, each with a file of its own; the check of what was merged puts them together."""
    items = [f"part{n}" for n in range(rng.randint(2, 4))]
    command = f"for n in 1 2 3; do echo ${{{{ item }}}} $n >> ${{{{ item }}}}; sleep {rng.uniform(0.1, 0.8):.2f}; done"
    fan_out = {"items": items, "command": command, "merge": {"verify": "cat part*"}}
    task = {"fan_out": fan_out, "verify": f"cat part* > {LEDGER}", "outputs": {"files": [LEDGER]}}
    lines = tuple(f"{item} {n}" for item in items for n in (1, 2, 3))
    return Work("fan-out", task, ledger=lines, children=len(items))


def _subagents(rng: random.Random) -> Work:
    """An agent has two subagents at once, and two more when it has seen what the first ones did, all of them in forks."""
    named = [f"made{n}" for n in range(4)]
    calls = [{"id": name, "name": "task", "args": {"description": name, "subagent_type": "general-purpose"}} for name in named]
    append = f"echo {{{{ prompt }}}} >> {{{{ prompt }}}}; sleep {rng.uniform(0.1, 0.8):.2f}"
    see = {"id": "see", "name": "execute", "args": {"command": f"cat made* >> {LEDGER}"}}
    work = _agent("subagents", [{"tool_calls": calls[:2]}, {"tool_calls": calls[2:]}, {"tool_calls": [see]}], named, children=4)
    turns = [{"tool_calls": [{"id": "do", "name": "execute", "args": {"command": append}}]}, {"text": "made"}]
    script = {**yaml.safe_load(work.script or ""), "subagents": [{"when": "made", "turns": turns}]}
    return replace(work, script=yaml.safe_dump(script))


def _asking(rng: random.Random) -> Work:
    """An agent that has to ask before it writes a file; its sandbox is kept meanwhile, or given up for a snapshot."""
    turns = [
        {"tool_calls": [_execute("c0", "asking", rng.uniform(0.1, 0.8))]},
        {"tool_calls": [{"id": "w", "name": "write_file", "args": {"file_path": "allowed", "content": "allowed\n"}}]},
        {"tool_calls": [_execute("c1", "$(cat allowed)", rng.uniform(0.1, 0.8))]},
    ]
    work = _agent("asking", turns, ["asking", "allowed"], questions=1)
    asked = {"interrupt_on": {"write_file": True}, "while_waiting": rng.choice(["keep", "snapshot"])}
    return replace(work, task={**work.task, "agent": {**work.task["agent"], **asked}})


def _command(rng: random.Random) -> Work:
    """A command that prints what it writes down."""
    count, pause = rng.randint(4, 16), rng.uniform(0.1, 0.5)
    command = f"for n in $(seq {count}); do echo line $n | tee -a {LEDGER}; sleep {pause:.2f}; done"
    lines = tuple(f"line {n}" for n in range(1, count + 1))
    task = {"command": command, "verify": f"test $(wc -l < {LEDGER}) = {count}", "outputs": {"files": [LEDGER]}}
    return Work("command", task, ledger=lines, output="".join(f"{line}\n" for line in lines))


def _failing(rng: random.Random) -> Work:
    """A command that fails, as often as it is tried."""
    retries = rng.randint(1, 2)
    task = {"command": f"{_append('tried', rng.uniform(0.1, 1.0))}; exit 3", "retries": retries, "outputs": {"files": [LEDGER]}}
    return Work("failing", task, statuses=frozenset({RunStatus.ERROR}), ledger=("tried",), failures=retries + 1)


def _late(rng: random.Random) -> Work:
    """A command that takes longer than it may."""
    task = {"command": "sleep 3600", "timeout": rng.uniform(2, 6)}
    return Work("late", task, statuses=frozenset({RunStatus.TIMEOUT}))


def _cancelled(rng: random.Random) -> Work:
    """An agent whose run somebody stops: at any time, so that it may have ended before."""
    statuses = frozenset({RunStatus.CANCELLED, RunStatus.SUCCESS})
    return replace(_steps(rng), kind="cancelled", statuses=statuses, cancel_after=rng.uniform(0.0, 6.0))


_KINDS: list[tuple[Callable[[random.Random], Work], int]] = [
    (_steps, 8), (_parallel, 6), (_subagent, 4), (_fan_out, 4), (_subagents, 4), (_asking, 4), (_command, 6), (_failing, 3),
    (_late, 2), (_cancelled, 4),
]  # fmt: skip
