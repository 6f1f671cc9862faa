"""What the earlier attempts of a run have told in its events, so that one that goes on repeats nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from orchestrator.runs.models import Event


@dataclass
class Past:
    """Of the attempts that began, or went on with, what this one goes on with."""

    started: set[str] = field(default_factory=set)
    """`command`, `verify`: what was told to have been started."""
    finished: set[str] = field(default_factory=set)
    """Those of them whose end was told."""
    offsets: dict[tuple[str, str], int] = field(default_factory=dict)
    """For each kind of output and each stream how many of its bytes have been told."""
    told: dict[str, int] = field(default_factory=dict)
    """For each kind of output how many bytes of events it has taken."""
    children: set[str] = field(default_factory=set)
    """Ids of children whose end was told."""
    fan_outs: set[tuple[str, str]] = field(default_factory=set)
    """What was told of fan-outs: the types of events, and the keys."""
    agent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """What the agent said and did."""

    def take(self, event: Event) -> None:
        """One event, in order."""
        thing, _, what = event.type.partition(".")
        if event.type in ("fan_out.started", "merge.finished"):
            self.fan_outs.add((event.type, event.data["key"]))
        elif what == "started":
            self.started.add(thing)
        elif what == "output" and "offset" in event.data:
            self.offsets[event.type, event.data["stream"]] = event.data["offset"]
            self.told[event.type] = self.told.get(event.type, 0) + len(event.data["text"].encode(errors="replace"))
        elif event.type == "child.finished":
            self.children.add(event.data["run"])
        elif what == "finished":
            self.finished.add(thing)
        elif thing in ("model", "tool"):
            self.agent.append((event.type, event.data))


def past_of(events: Iterable[Event], epoch: int) -> Past:
    """The past that these events tell of; what came before the attempt `epoch`, in which the task was begun, is forgotten.

    That attempt may have meant to go on with an earlier one, whose sandbox turned out to be gone: its `resumed` says nothing.
    """
    past = Past()
    for event in events:
        if event.type == "run.started" and event.data["attempt"] <= epoch:
            past = Past()
        past.take(event)
    return past
