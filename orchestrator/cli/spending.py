"""What a run has used, in a few lines: each agent and model over all attempts, then the sandboxes, then the cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.text import count, duration, one_line

if TYPE_CHECKING:
    from orchestrator.runs.models import Attempt, ModelUsage
    from orchestrator.runs.spent import Spent


def usage_rows(attempts: Sequence[Attempt], usage: Sequence[ModelUsage]) -> list[tuple[str, str]]:
    """`(label, text)` of each line; none when nothing is known."""
    found = [("used", text) for text in _models(usage)]
    if seconds := sum(attempt.sandbox_seconds or 0.0 for attempt in attempts):
        found.append(("used", f"{duration(seconds)} of a sandbox"))
    known = [one.cost_micros for one in usage if one.cost_micros is not None]
    if known:
        part = "" if len(known) == len(usage) else ", without the models that have no price"
        found.append(("used", f"${sum(known) / 1_000_000:,.4f}{part}"))
    return [(label if index == 0 else "", text) for index, (label, text) in enumerate(found)]


def spent_text(spent: Spent) -> str:
    """What was used altogether, on one line."""
    tokens = [f"{spent.tokens:,} tokens"] if spent.tokens else []
    cost = [f"${spent.cost_micros / 1_000_000:,.4f}"] if spent.cost_micros else []
    return ", ".join([*tokens, f"{duration(spent.sandbox_seconds)} of sandboxes", *cost])


def _models(usage: Sequence[ModelUsage]) -> list[str]:
    together: dict[tuple[str, str], list[ModelUsage]] = defaultdict(list)
    for one in usage:
        together[one.agent, one.model].append(one)
    return [_line(agent, model, parts) for (agent, model), parts in together.items()]


def _line(agent: str, model: str, parts: Sequence[ModelUsage]) -> str:
    calls, given, made, cached = (
        sum(getattr(one, name) for one in parts) for name in ("calls", "input_tokens", "output_tokens", "cache_read_tokens")
    )
    who = one_line(f"{agent or 'agent'}, {model or 'a model without a name'}")
    from_cache = f" ({cached:,} from the cache)" if cached else ""
    return f"{who}: {count(calls, 'call')}, {given:,} tokens in{from_cache}, {made:,} out"
