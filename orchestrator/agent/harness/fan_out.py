"""The seam through which subagents work elsewhere: in places of their own, whose work is folded back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class TaskCall:
    """One call of `task`."""

    id: str
    subagent_type: str
    description: str


@dataclass(frozen=True)
class Answer:
    """An answer of the main agent's model, as far as it calls `task`."""

    id: str
    """Of its message: the same when the agent goes on in another process."""
    calls: tuple[TaskCall, ...]
    """Those for subagents that there are, in the order of the answer."""


@dataclass(frozen=True)
class Report:
    """What came of one call."""

    text: str
    failed: bool = False
    update: Mapping[str, Any] = field(default_factory=dict)
    """Of the main agent's state."""


class FanOut(Protocol):
    """Carries out calls of `task` elsewhere.

    It is called for each call of an answer that it takes, side by side, and each time with the whole answer: so the first call
    can begin what is to be done for all of them, and each comes back when its own report is there. When an agent goes on in
    another process, calls whose reports were not noted come again, with equal arguments. What it raises ends the main agent's
    run when it is a `FanfoldError` or of the `sandboxes` package, and is an error of the call otherwise.
    """

    def takes(self, subagent_type: str) -> bool:
        """Whether the calls of this subagent are carried out elsewhere; otherwise it works where the main agent does."""
        ...

    async def __call__(self, call: TaskCall, answer: Answer) -> Report:
        """Carry out one call."""
        ...
