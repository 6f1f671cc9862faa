"""The JSON that the command line prints: one shape for each thing, the same in every command."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.runs.models import Artifact, Attempt, Event, ModelUsage, Run
    from orchestrator.runs.spent import Spent


def run_json(run: Run) -> dict[str, Any]:
    """A run. `seconds` is from its submission to its end; `exit_code` is null while it goes on.

    `parent_id` is the run whose child it is, `root_id` the one at the top of its tree, `depth` levels above; null for nobody's.
    """
    return {
        "id": run.id,
        "name": run.name,
        "status": run.status.value,
        "exit_code": run.exit_code,
        "error": {"kind": run.error.kind, "message": run.error.message} if run.error else None,
        "parent_id": run.parent_id,
        "root_id": run.root_id,
        "depth": run.depth,
        "fan_out": run.fan_out,
        "provider": run.provider,
        "attempt": run.attempt,
        "worker": run.worker,
        "created_at": _moment(run.created_at),
        "started_at": _moment(run.started_at),
        "finished_at": _moment(run.finished_at),
        "seconds": round((run.finished_at - run.created_at).total_seconds(), 3) if run.finished_at else None,
        "spec": run.spec,
    }


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    """One attempt at a run. `provider` and `sandbox` are null when it never had a sandbox."""
    return {
        "attempt": attempt.number,
        "worker": attempt.worker,
        "status": attempt.status.value,
        "error": {"kind": attempt.error.kind, "message": attempt.error.message} if attempt.error else None,
        "started_at": _moment(attempt.started_at),
        "finished_at": _moment(attempt.finished_at),
        "provider": attempt.provider,
        "sandbox": attempt.sandbox_id,
        "sandbox_seconds": attempt.sandbox_seconds,
    }


def usage_json(usage: ModelUsage) -> dict[str, Any]:
    """What one agent used of one model in one attempt. `agent` is null for the run's own; `cost_usd` without a price."""
    return {
        "attempt": usage.attempt,
        "agent": usage.agent or None,
        "model": usage.model,
        "calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost_usd": None if usage.cost_micros is None else usage.cost_micros / 1_000_000,
    }


def spent_json(spent: Spent) -> dict[str, Any]:
    """What was used altogether. `cost_usd` is that of the models that have a price."""
    return {
        "tokens": spent.tokens,
        "cost_usd": spent.cost_micros / 1_000_000,
        "sandbox_seconds": spent.sandbox_seconds,
    }


def artifact_json(artifact: Artifact, place: object) -> dict[str, Any]:
    """An artifact; `path` is where its content lies: a path of this machine, or an address."""
    return {"name": artifact.name, "size": artifact.size, "sha256": artifact.sha256, "path": str(place)}


def event_json(event: Event) -> dict[str, Any]:
    """An event."""
    return {"run": event.run_id, "seq": event.seq, "at": _moment(event.at), "type": event.type, "data": event.data}


def write_json(document: object) -> None:
    """Print one JSON document, with escapes for all that is not ASCII: it survives any terminal and any encoding."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    sys.stdout.flush()


def _moment(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
