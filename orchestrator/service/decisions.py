"""What a person answers to an interrupted run, checked before it is recorded: an answer that does not fit is never kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.errors import BadInput, IllegalTransition
from orchestrator.runs.models import Run, RunStatus

_KEYS = {"approve": {"type"}, "edit": {"type", "edited_action"}, "reject": {"type", "message"}, "respond": {"type", "message"}}
"""The keys of each kind of decision."""


def checked(run: Run, decisions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer to what `run` asks, as the record keeps it: one decision for each action, in their order.

    Raises `IllegalTransition` when it asks nothing, `BadInput` when the decisions do not fit.
    """
    if run.status is not RunStatus.INTERRUPTED or run.interrupt is None:
        raise IllegalTransition(f"run {run.id} is {run.status}: it asks for no decision")
    actions = run.interrupt.get("actions", [])
    if len(decisions) != len(actions):
        raise BadInput(f"decisions: run {run.id} asks about {len(actions)} actions, and {len(decisions)} decisions were given")
    for number, (action, decision) in enumerate(zip(actions, decisions, strict=True)):
        _check(f"decisions.{number}", action, decision)
    return {"decisions": [dict(decision) for decision in decisions]}


def _check(where: str, action: Mapping[str, Any], decision: Mapping[str, Any]) -> None:
    kind, allowed = decision.get("type"), action.get("allowed", list(_KEYS))
    if kind not in _KEYS or kind not in allowed:
        raise BadInput(f"{where}: {kind!r} is no decision about {action['name']}; allowed: {', '.join(allowed)}")
    if unknown := sorted(set(decision) - _KEYS[kind]):
        raise BadInput(f"{where}: '{kind}' has no '{unknown[0]}'; it has {', '.join(sorted(_KEYS[kind]))}")
    if kind == "respond" and not isinstance(decision.get("message"), str):
        raise BadInput(f"{where}: 'respond' needs a 'message', which the agent gets in place of the tool's result")
    if kind == "edit":
        _check_edit(where, action, decision.get("edited_action"))


def _check_edit(where: str, action: Mapping[str, Any], edited: object) -> None:
    if not isinstance(edited, Mapping) or not isinstance(edited.get("args"), Mapping) or set(edited) != {"name", "args"}:
        raise BadInput(f"{where}: 'edit' needs an 'edited_action' with 'name' and 'args'")
    if edited["name"] != action["name"]:
        raise BadInput(f"{where}: an edit keeps the tool: {action['name']} cannot become {edited['name']!r}")
