"""What an agent whose subagents work in forks of its sandbox needs of whoever forks. It imports nothing that is slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from orchestrator.agent.harness.fan_out import TaskCall


@dataclass(frozen=True)
class Worked:
    """What came of one subagent, and of what it changed."""

    text: str
    failed: bool = False
    conflicts: Mapping[str, bytes] = field(default_factory=dict)
    """Files that show what could not be merged, by their paths below the place for conflicts."""


class Forks(Protocol):
    """Runs subagents in forks of the sandbox, and folds back what they changed."""

    def takes(self, subagent_type: str) -> bool:
        """Whether this subagent works in a fork."""
        ...

    async def run(self, answer_id: str, calls: Sequence[TaskCall]) -> Sequence[Worked]:
        """Run the subagents that an answer calls, each in a fork, and merge: what came of each call.

        Nothing else may be at work in the sandbox meanwhile. Called again with the same arguments, by whatever process, it goes
        on where it was. When it is cancelled, all that it began has ended before it returns.
        """
        ...
