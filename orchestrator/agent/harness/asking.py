"""A human's word on one tool call that a permission with `interrupt` stops, in the form of langchain's human in the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.tools import ToolException
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.types import interrupt

from orchestrator.agent.harness.humans import ANSWERS_MAX, DECISIONS, FORM, check_decision
from orchestrator.errors import BadInput
from orchestrator.permissions import FileOperation, FilesystemPermission, Rules


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
        decision = self._decision(request)
        if decision["type"] == "respond":
            raise Answered(decision["message"])
        if decision["type"] == "edit":
            raise Edited(dict(decision["edited_action"]["args"]))
        if decision["type"] == "reject":
            reason = decision.get("message")
            raise ToolException(f"Error: a human did not allow this{f': {reason}' if reason else ''}. Do not try it again")

    def _decision(self, request: dict[str, Any]) -> Mapping[str, Any]:
        """Ask until the answer is a decision."""
        problem = ""
        for _ in range(ANSWERS_MAX):
            answer = interrupt({**request, "problem": problem} if problem else request)
            try:
                [decision] = answer["decisions"]
                check_decision(decision, self.tool)
                return cast("Mapping[str, Any]", decision)
            except (ValueError, TypeError, KeyError) as exc:
                problem = f"the last answer does not fit: {exc}; {FORM}"
        raise BadInput(f"{ANSWERS_MAX} answers to the same request were wrong; {problem}")


def check_checkpointer(rules: Rules) -> None:
    """Raise `BadInput` when a rule would ask a human in a run that has nothing to wait in."""
    asks = any(rule.mode == "interrupt" for rule in rules.rules)
    if asks and not get_config().get("configurable", {}).get(CONFIG_KEY_CHECKPOINTER):
        raise BadInput(
            "a permission with mode 'interrupt' asks a human, but there is nothing to wait in: "
            "give the agent a checkpointer, such as InMemorySaver()"
        )
