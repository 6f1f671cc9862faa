"""What a task says about folding the work of many sandboxes into one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from orchestrator.complaints import complaint
from orchestrator.fields import MAX_TIMEOUT, ModelName, Text
from orchestrator.mergepolicy import MergePolicy
from sandboxes.providers.base import Duration, Strict

DEFAULT_VERIFY_TIMEOUT = 600.0
"""Seconds."""


class ResolverSpec(Strict):
    """An agent that settles conflicts where the policy says `ask`, in a fork of its own."""

    model: ModelName
    prompt: Text | None = None
    """What it is told beside the conflict itself."""


class MergeSpec(MergePolicy):
    """How what several children did becomes the work of one."""

    verify: Text | None = None
    """A shell command that runs on the merged tree in a fork, before it is applied: exit code 0 lets it pass."""
    verify_timeout: Duration = Field(DEFAULT_VERIFY_TIMEOUT, le=MAX_TIMEOUT)
    """Seconds for one run of `verify`."""
    resolver: ResolverSpec | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """The model of who settles conflicts, if anybody does."""
        return (self.resolver.model,) if self.resolver else ()

    @model_validator(mode="after")
    def _somebody_is_asked(self) -> MergeSpec:
        asks = [index for index, rule in enumerate(self.rules) if rule.policy == "ask"]
        if asks and self.resolver is None:
            raise complaint(("rules", asks[0], "policy"), "`ask` needs somebody who is asked: give `resolver: {model: ...}`")
        if self.resolver is not None and not asks:
            raise complaint(("resolver",), "would never be asked: give it the paths, as `rules: [{path: '**', policy: ask}]`")
        return self


class FanOutMerge(MergeSpec):
    """The merge of a task's `fan_out`."""

    on_conflict: Literal["fail", "keep"] = "fail"
    """What becomes of the run when conflicts are left: it fails, or goes on with what the policy took."""
