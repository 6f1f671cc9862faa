"""Where the worker of a fan-out dies: right before, in the middle of, or right after one call of one function."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import itertools
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.errors import RecordUnavailable

TURNS = 3
"""Turns of the event loop after which a call is under way."""

When = Literal["before", "during", "after", "without a record"]


@dataclass(frozen=True)
class Point:
    """A moment in the life of a worker, at which it dies, or has no record for a moment."""

    name: str
    """What is done there, in words."""
    target: str
    """`module:Class.method` or `module:function`."""
    nth: int
    """Which call of it: the first one is 1."""
    when: When
    asked: str = ""
    """Only calls that are given this word count; all, when it is empty."""

    @property
    def end(self) -> int:
        """The exit code of the worker: one that has no record leaves its run, and lives."""
        return 0 if self.when == "without a record" else -signal.SIGKILL

    def __str__(self) -> str:
        return f"{self.when} {self.name}"

    def arm(self) -> None:
        """Have this process die there."""
        module, _, path = self.target.partition(":")
        *holders, name = path.split(".")
        holder: Any = functools.reduce(getattr, holders, importlib.import_module(module))
        setattr(holder, name, self._deadly(getattr(holder, name)))

    def _deadly(self, whole: Any) -> Any:
        calls = itertools.count(1)

        def is_it(args: tuple[Any, ...]) -> bool:
            return (not self.asked or self.asked in args) and next(calls) == self.nth

        @functools.wraps(whole)
        def done(*args: Any, **kwargs: Any) -> Any:
            if not is_it(args):
                return whole(*args, **kwargs)
            if self.when == "without a record":
                raise RecordUnavailable("it is away for a moment")
            if self.when == "after":
                whole(*args, **kwargs)
            return die()

        @functools.wraps(whole)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            if not is_it(args):
                return await whole(*args, **kwargs)
            if self.when == "after":
                await whole(*args, **kwargs)
            if self.when == "during":
                under_way = asyncio.ensure_future(whole(*args, **kwargs))
                for _ in range(TURNS):
                    await asyncio.sleep(0)
                assert not under_way.done(), f"{self}: it ended at once"
            return die()

        return awaited if inspect.iscoroutinefunction(whole) else done


def die() -> None:
    """End this process as the kernel would."""
    os.kill(os.getpid(), signal.SIGKILL)


FANOUT = "orchestrator.worker.fanout"
FAMILY = "orchestrator.runs.family:Family"
RECORD = "orchestrator.runs.store:Store"
PROVIDERS = {
    "local": "sandboxes.providers.local.provider:LocalProvider",
    "docker": "sandboxes.providers.docker.provider:DockerProvider",
}


WORK = {"declared": "orchestrator.worker.attempt:stream_command", "agent": "sandboxes.toolbox.attached:ToolboxSandbox.aexecute"}
"""What a child does in its sandbox."""
CHECKPOINTS = range(1, 9)
"""An agent and its two subagents write down how far they are as often as that, at least."""


def points(provider: str, kind: str) -> Iterator[Point]:
    """The steps of a kind of run."""
    steps = {"asking": _asking, "nested": _nested}
    return steps[kind](provider) if kind in steps else _plain(provider, kind)


def _asking(provider: str) -> Iterator[Point]:
    """What two children whose changes are in conflict have in addition: the agent that settles them, the third child."""
    yield from _around("the agent is asked", f"{FANOUT}.asking:Asking.settle", during=True)
    yield from _around("the agent is recorded", f"{FAMILY}.begin", 2)
    yield from _around("the agent is claimed", "orchestrator.runs.granting:Granting.grant", 3)
    yield from _around("a fork is given to the agent", f"{FANOUT}.source:Source.create", 3, during=True)
    yield from _around("the agent gets what is merged", f"{FANOUT}.origin:apply_all", during=True)
    yield from _around("the sandbox of the agent is ready", f"{RECORD}.set_ready", 4)
    yield from _around("the agent does its work", WORK["agent"], during=True)
    yield from _around("the changes of the agent are kept", f"{FAMILY}.note_work", 3)
    yield from _around("the outcome of the agent is noted", f"{RECORD}.settle", 3)
    yield from _around("the agent ends", f"{RECORD}.finish", 3)
    yield from _around("the parent goes on again", f"{FANOUT}.source:Source.go_on", 2, during=True)
    yield from _around("its result is noted", f"{FAMILY}.note_result", 1, 2)
    yield from _around("the plan is noted", f"{FAMILY}.note_plan")
    yield from _around("the plan is applied", f"{FANOUT}.operation:apply_all", during=True)


def _nested(provider: str) -> Iterator[Point]:
    """What a child that has a child has in addition. Of two calls that end, the first is the inner one."""
    yield from _around("a grandchild is recorded", f"{FAMILY}.begin", 2)
    yield from _around("a base is noted", f"{FAMILY}.note_base", 1, 2)
    yield from _around("a grandchild is claimed", "orchestrator.runs.granting:Granting.grant", 3)
    yield from _around("a grandchild is given a fork", f"{FANOUT}.source:Source.create", 3, during=True)
    yield from _around("a child and a grandchild do their work", WORK["agent"], 1, 2, during=True)
    yield from _around("changes are kept", f"{FAMILY}.note_work", 1, 2, 3)
    yield from _around("a sandbox goes", f"{PROVIDERS[provider]}.destroy", 1, 2, 3, during=True)
    yield from _around("a run ends", f"{RECORD}.finish", 1, 2, 3)
    yield from _around("a parent goes on", f"{FANOUT}.source:Source.go_on", 1, 2, during=True)
    yield from _around("a plan is noted", f"{FAMILY}.note_plan", 1, 2)
    yield from _around("a plan is applied", f"{FANOUT}.operation:apply_all", 1, 2, during=True)
    yield from _around("a result is noted", f"{FAMILY}.note_result", 1, 2)


def _plain(provider: str, kind: str) -> Iterator[Point]:
    """Every step of a fan-out of two children with a check of their merge, in the order of the steps.

    Of what each run does, the calls of the parent come first and those of the children next; who of these is the first one
    is left to chance.
    """
    yield from _around("the children are recorded", f"{FAMILY}.begin")
    yield from _around("the base is noted", f"{FAMILY}.note_base")
    yield from _around("a child is claimed", "orchestrator.runs.granting:Granting.grant", 1, 2)
    yield from _around("children are forked", f"{PROVIDERS[provider]}.fork", during=True)
    yield from _around("a fork is given to its child", f"{FANOUT}.source:Source.create", 1, 2)
    yield from _around("the sandbox of a child is noted", f"{RECORD}.set_sandbox", 2, 3)
    yield from _around("the sandbox of a child is ready", f"{RECORD}.set_ready", 2, 3)
    yield from _around("a child does its work", WORK[kind], 1, 2, during=True)
    yield from _around("the changes of a child are kept", f"{FAMILY}.note_work", 1, 2)
    yield from _around("the outcome of a child is noted", f"{RECORD}.settle", 1, 2)
    yield from _around("the sandbox of a child goes", f"{PROVIDERS[provider]}.destroy", 1, 2, during=True)
    yield from _around("a child ends", f"{RECORD}.finish", 1, 2)
    yield Point("a child has ended", f"{RECORD}.get", 4, "without a record")
    yield from _around("the parent goes on", f"{FANOUT}.source:Source.go_on", during=True)
    yield from _around("the merge is planned", f"{FANOUT}.folding:Folding.merged", during=True)
    yield from _around("a copy is made for the check", f"{FANOUT}.source:Source.create", 3, during=True)
    yield from _around("the check runs", f"{FANOUT}.folding:run_command", during=True)
    yield from _around("the copy goes", f"{PROVIDERS[provider]}.destroy", 3, during=True)
    yield from _around("the reports are kept", f"{FANOUT}.operation:keep_reports", during=True)
    yield from _around("the plan is noted", f"{FAMILY}.note_plan")
    yield from _around("the plan is applied", f"{FANOUT}.operation:apply_all", during=True)
    yield from _around("the edits are made", "sandboxes.toolbox.client:ToolboxClient.call", 2, during=True, asked="apply")
    yield from _around("the result is noted", f"{FAMILY}.note_result")
    yield from _around("the parent has gone on with the result", f"{FANOUT}.operation:FanOut.run")
    if kind == "agent":
        yield from _around("a checkpoint is written", "orchestrator.runs.checkpointing:Checkpoints.note", *CHECKPOINTS)
    yield from _around("the outcome of the parent is noted", f"{RECORD}.settle", 3)
    yield from _around("the parent ends", f"{RECORD}.finish", 3)


def _around(name: str, target: str, *nth: int, during: bool = False, asked: str = "") -> Iterator[Point]:
    for n in nth or (1,):
        told = f"{name} ({n})" if len(nth) > 1 else name
        whens: tuple[When, ...] = ("before", "during", "after") if during else ("before", "after")
        yield from (Point(told, target, n, when, asked) for when in whens)
