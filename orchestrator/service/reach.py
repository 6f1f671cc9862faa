"""Whether a task that lists providers can have a sandbox of any of them, as far as that is known before it is recorded.

Workers tell which providers they know, and which of these they cannot use: that has no SDK there, or no key. What only the
platform knows (whether it is away, full, or refuses a key) is found out when the sandbox is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.errors import BadInput
from orchestrator.runs.choice import too_weak
from orchestrator.sandboxspec import TaskSandbox
from orchestrator.service.installation import Installation
from sandboxes.providers.registry import known_isolation, shortcomings, unknown

Reach = Mapping[str, str | None]
"""The providers that a worker knows, with why it cannot use one."""


def check_reach(sandbox: TaskSandbox, installation: Installation) -> None:
    """Raise `BadInput`, with every reason, when no worker could make a sandbox of one of the listed providers."""
    if sandbox.providers is None:
        return
    workers = [worker.providers for worker in installation.store.workers()]
    if not workers and installation.broker.embedded:
        workers = [shortcomings()]  # one is going to be started here, with what is here
    told = [one for one in workers if one is not None]
    if len(told) == len(workers) and (why := refusal(sandbox, told)):
        raise BadInput(f"sandbox.providers: {why}")


def refusal(sandbox: TaskSandbox, workers: Sequence[Reach]) -> str | None:
    """Why these workers can make no sandbox for a task; None when one of them may, or there are none."""
    names = sandbox.asked
    nobodys = [name for name in names if not any(name in worker for worker in workers)]
    if nobodys and workers:
        known = sorted({name for worker in workers for name in worker})
        return "; ".join(unknown(name, known) for name in nobodys)
    why = [_why_not(sandbox, names, worker) for worker in workers]
    if not why or any(None in reasons.values() for reasons in why):
        return None
    reasons = "; ".join(f"{name}: {reason}" for name, reason in why[0].items())
    return f"no worker that is alive can make a sandbox on any of them: {reasons}"


def _why_not(sandbox: TaskSandbox, names: Sequence[str], worker: Reach) -> dict[str, str | None]:
    """For each provider why this worker cannot have the sandbox there."""
    return {name: worker.get(name, "the worker does not know it") or _weaker(sandbox, name, names[0]) for name in names}


def _weaker(sandbox: TaskSandbox, name: str, first: str) -> str | None:
    isolation, floor = known_isolation(name), known_isolation(first)
    if sandbox.weaker_isolation == "allow" or isolation is None or floor is None:
        return None
    return too_weak(name, isolation, first, floor)
