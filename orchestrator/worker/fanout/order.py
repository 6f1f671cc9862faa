"""What a fan-out is asked for, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from orchestrator.mergespec import MergeSpec
from orchestrator.runs.models import Run, RunStatus
from orchestrator.spec import RunSpec

OnChildFailure = Literal["continue", "cancel"]
"""What becomes of the others when one child fails."""
SUBAGENTS = "task"
"""How the key of a fan-out begins, after the epoch, whose children are subagents."""
ASKING = "ask"
"""How the key of one ends whose child settles the conflicts of another."""
REPORT = "report.md"
"""The artifact of a child with an agent's last answer."""


@dataclass(frozen=True)
class NewChild:
    """A child that is to be made."""

    name: str
    """Unlike those of its siblings: the merge and the files of its conflicts are told by it."""
    spec: RunSpec
    model_file: bytes | None = None
    """The script or cassette of its model, where it has one."""


@dataclass(frozen=True)
class FanOutOrder:
    """A fan-out."""

    key: str
    """Names it within the run: the same in every attempt that goes on with it."""
    children: tuple[NewChild, ...]
    max_parallel: int | None
    """Children at work at the same time; None leaves it to the policy."""
    on_child_failure: OnChildFailure
    merge: MergeSpec


@dataclass(frozen=True)
class ChildEnd:
    """How a child ended."""

    run: Run
    report: str
    """What it had to say: an agent's last answer, or why it failed."""

    @property
    def name(self) -> str:
        """See `NewChild`."""
        return self.run.name

    @property
    def succeeded(self) -> bool:
        """Whether what it changed is to be merged."""
        return self.run.status is RunStatus.SUCCESS


@dataclass(frozen=True)
class Folded:
    """What came of a fan-out. As JSON it is in the record: nobody folds twice."""

    applied: bool
    """Whether what was merged is in the workspace."""
    merged: int
    """Paths that it changed."""
    conflicts: int
    """Conflicts that are left to be decided."""
    failed: tuple[str, ...]
    """Names of children that did not succeed."""
    left_out: tuple[str, ...]
    """Names of children that succeeded, and whose work was not merged."""
    problem: str = ""
    """Why nothing was applied."""
    summaries: Mapping[str, str] = field(default_factory=dict)
    """For each child what became of its work, in words."""
    reports: Mapping[str, str] = field(default_factory=dict)
    """For each child what it had to say."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What shows the conflicts: texts, by paths that begin with a child's name."""

    def refused(self, problem: str) -> Folded:
        """The same, where nothing could be applied after all."""
        kept = dict.fromkeys(self.summaries, f"Nothing was merged: {problem}")
        succeeded = tuple(name for name in self.reports if name not in self.failed)
        return replace(self, applied=False, merged=0, left_out=succeeded, problem=problem, summaries=kept)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {**vars(self), "failed": list(self.failed), "left_out": list(self.left_out)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Folded:
        """What `to_json` gave."""
        return cls(**{**value, "failed": tuple(value["failed"]), "left_out": tuple(value["left_out"])})


def is_subagent(fan_out: str | None) -> bool:
    """Whether a child of the fan-out with this key is a subagent, which has none of its own."""
    _, _, kind = (fan_out or "").partition("-")
    return kind.startswith(SUBAGENTS) or kind.endswith(f"-{ASKING}")
