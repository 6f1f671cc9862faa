"""What the operator rules about providers: the section `providers` of the policy file.

    providers:                          # what `provider: auto` stands for, the preferred one first
      modal:
        max_running: 20                 # runs with a live sandbox there, over all workers
        breaker: {failures: 5, window: 60s, cool_down: 30s}
        not_authenticated: fall_back    # default: fail
      docker: {}
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from orchestrator.sandboxspec import AUTO, ProviderName
from sandboxes.providers.base import Duration, Strict

Cap = Annotated[int, Field(ge=0)]
"""Runs at the same time."""


class BreakerRule(Strict):
    """When a worker leaves a provider alone for a while."""

    failures: int = Field(5, ge=1)
    """Outages in a row after which it does."""
    window: Duration = 60.0
    """Seconds that these are within."""
    cool_down: Duration = 30.0
    """Seconds until one run may try again. What the platform itself says (`retry_after`) holds instead."""


class ProviderRule(Strict):
    """What holds for one provider."""

    max_running: Cap | None = None
    """Runs with a live sandbox there, those that wait for a person among them. 0 holds them all."""
    breaker: BreakerRule = BreakerRule()
    not_authenticated: Literal["fail", "fall_back"] = "fail"
    """When the platform refuses the operator's key: the run fails, or another of its providers is tried."""


def _check_name(value: str) -> str:
    if value == AUTO:
        raise ValueError(f"'{AUTO}' is no provider: it stands for those that are listed here, in their order")
    return value


def _nothing_is_ruled(value: Any) -> Any:
    """`docker:` without anything behind it lists the provider."""
    return {} if value is None else value


ProviderRules = dict[
    Annotated[ProviderName, BeforeValidator(_check_name)], Annotated[ProviderRule, BeforeValidator(_nothing_is_ruled)]
]
