"""What runs or tenants have used, as one value, and when that is more than they may."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.spec import Budget

MICROS = 1_000_000
"""Millionths in one."""


@dataclass(frozen=True)
class Spent:
    """What was used."""

    tokens: int = 0
    """Given to models and made by them."""
    cost_micros: int = 0
    """Millionths of a USD, of the models that have a price."""
    sandbox_seconds: float = 0.0

    def over(self, budget: Budget) -> str | None:
        """Which part of the budget of a run is used up, in words; None while there is some left of each."""
        if budget.tokens is not None and self.tokens >= budget.tokens:
            return f"the run has used up its budget of {budget.tokens} tokens ({self.tokens} used)"
        if budget.cost is not None and self.cost_micros >= budget.cost * MICROS:
            return f"the run has used up its budget of {budget.cost:g} USD ({self.cost_micros / MICROS:g} USD used)"
        if budget.sandbox_seconds is not None and self.sandbox_seconds >= budget.sandbox_seconds:
            used = f"{self.sandbox_seconds:.0f} s used"
            return f"the run has used up its budget of {budget.sandbox_seconds:g} s of sandboxes ({used})"
        return None
