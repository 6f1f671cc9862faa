"""What an agent asks a person before it goes on, as plain JSON, and the answer as langgraph takes it.

An agent may ask several things at once: its own tools, and those of subagents that work at the same time. A person sees one
list of actions; each pause gets back the decisions on its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.types import Command, Interrupt


def question_of(interrupts: Sequence[Interrupt]) -> dict[str, Any]:
    """`{"actions": [{name, args, description, allowed}], "pauses": [{id, count}], "problem"?}`."""
    actions: list[dict[str, Any]] = []
    pauses = []
    problems = []
    for pause in interrupts:
        request = pause.value if isinstance(pause.value, Mapping) else {}
        allowed = {one["action_name"]: one["allowed_decisions"] for one in request.get("review_configs", [])}
        asked = [_action(one, allowed) for one in request.get("action_requests", [])]
        actions += asked
        pauses.append({"id": pause.id, "count": len(asked)})
        problems += [request["problem"]] if request.get("problem") else []
    return {"actions": actions, "pauses": pauses, **({"problem": "; ".join(problems)} if problems else {})}


def _action(request: Mapping[str, Any], allowed: Mapping[str, Any]) -> dict[str, Any]:
    name = request["name"]
    return {
        "name": name,
        "args": request.get("args", {}),
        "description": request.get("description", ""),
        "allowed": list(allowed.get(name, ("approve", "edit", "reject", "respond"))),
    }


def answer_to(interrupts: Sequence[Interrupt], decision: Mapping[str, Any]) -> Command[Any]:
    """The answer that lets the agent go on: to each pause the decisions on its actions, in their order."""
    decisions = list(decision.get("decisions", []))
    resume: dict[str, Any] = {}
    for pause in question_of(interrupts)["pauses"]:
        resume[pause["id"]] = {"decisions": decisions[: pause["count"]]}
        decisions = decisions[pause["count"] :]
    return Command(resume=resume)
