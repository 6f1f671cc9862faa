"""A human's word on one tool call that a permission with `interrupt` stops, in the form of langchain's human in the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.tools import ToolException
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.types import interrupt

from orchestrator.errors import BadInput
from orchestrator.permissions import FileOperation, FilesystemPermission, Rules

DECISIONS = ("approve", "edit", "reject", "respond")


class Answered(Exception):
    """A human answered in place of the tool; the message is the answer."""


class Edited(Exception):
    """A human changed the call; `args` are its new arguments."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__("the call was edited")
        self.args_given = args


@dataclass(frozen=True)
class Question:
    """Stops the graph until a human has decided about this call of a tool."""

    tool: str
    args: dict[str, Any]

    def __call__(self, rule: FilesystemPermission, operation: FileOperation, path: str) -> None:
        """Return when it is approved. Raises `ToolException` when it is rejected, `Edited` or `Answered`."""
        verb = "read" if operation == "read" else "change"
        request = {
            "action_requests": [
                {"name": self.tool, "args": self.args, "description": f"{self.tool} wants to {verb} {path}: may it?"}
            ],
            "review_configs": [{"action_name": self.tool, "allowed_decisions": list(DECISIONS)}],
        }
        decision = _only_decision(interrupt(request))
        kind = decision.get("type")
        if kind == "approve":
            return
        if kind == "respond" and isinstance(decision.get("message"), str):
            raise Answered(decision["message"])
        edited = decision.get("edited_action")
        if (
            kind == "edit"
            and isinstance(edited, dict)
            and edited.get("name") == self.tool
            and isinstance(edited.get("args"), dict)
        ):
            raise Edited(edited["args"])
        if kind == "reject":
            reason = decision.get("message")
            raise ToolException(f"Error: a human did not allow this{f': {reason}' if reason else ''}. Do not try it again")
        raise ToolException(f"Error: it was not done: the answer to whether {path} may be used was no decision on {self.tool}")


def _only_decision(answer: Any) -> dict[str, Any]:
    decisions = answer.get("decisions") if isinstance(answer, dict) else None
    if isinstance(decisions, list) and len(decisions) == 1 and isinstance(decisions[0], dict):
        return decisions[0]
    return {}


def check_checkpointer(rules: Rules) -> None:
    """Raise `BadInput` when a rule would ask a human in a run that has nothing to wait in."""
    asks = any(rule.mode == "interrupt" for rule in rules.rules)
    if asks and not get_config().get("configurable", {}).get(CONFIG_KEY_CHECKPOINTER):
        raise BadInput(
            "a permission with mode 'interrupt' asks a human, but there is nothing to wait in: "
            "give the agent a checkpointer, such as InMemorySaver()"
        )
