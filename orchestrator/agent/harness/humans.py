"""A human decides about tool calls before they run: approve, edit, reject, or respond in the tool's place.

The pause, the request and the decisions are langchain's. What is added: a configuration that nobody could answer is refused
when the agent is made, and an agent without a checkpointer when it starts. An answer that does not fit the request is asked
for again, with a `problem` in the request; left to itself it would be read again on every resume, and the thread be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, get_args

from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, InterruptOnConfig
from langchain.agents.middleware.human_in_the_loop import DecisionType
from langchain_core.messages import ToolCall, ToolMessage
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.errors import GraphInterrupt
from langgraph.runtime import Runtime

from orchestrator.errors import BadInput

InterruptOn = Mapping[str, bool | InterruptOnConfig]
"""Names of tools; True allows every decision, False asks nobody, and a configuration names the decisions that are allowed."""

DECISIONS: tuple[str, ...] = get_args(DecisionType)
"""`approve`, `edit`, `reject`, `respond`."""
ANSWERS_MAX = 100
"""Answers to one request that may not fit it."""

_CONFIG_KEYS = ("allowed_decisions", "description", "when", "args_schema")
_CALLABLES = ("description", "when")
FORM = (
    "answer {'decisions': [...]} with one decision for each action, in their order: {'type': 'approve'}, "
    "{'type': 'edit', 'edited_action': {'name': ..., 'args': {...}}}, {'type': 'reject', 'message': ...} "
    "or {'type': 'respond', 'message': ...}"
)


class HumanReview(HumanInTheLoopMiddleware[Any, Any, Any]):
    """Pauses the agent before the tools that `interrupt_on` names; one request holds all of an answer's calls."""

    def before_agent(self, state: Any, runtime: Runtime[Any]) -> None:
        """Raises `BadInput` without a checkpointer: a pause could never end."""
        if not get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER):
            gated = ", ".join(sorted(self.interrupt_on))
            raise BadInput(
                f"interrupt_on names {gated}, but there is nothing to wait in: "
                "give the agent a checkpointer, such as InMemorySaver()"
            )

    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> None:
        """Raises `BadInput` without a checkpointer."""
        self.before_agent(state, runtime)

    def after_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Ask about the gated calls of the last answer, until the decisions fit them."""
        problem = ""
        for _ in range(ANSWERS_MAX):
            try:
                return super().after_model(state, runtime)
            except GraphInterrupt as pause:
                if problem:
                    pause.args[0][0].value["problem"] = problem
                raise
            except (ValueError, TypeError, KeyError, AttributeError) as exc:
                problem = f"the last answer does not fit: {exc}; {FORM}"
        raise BadInput(f"{ANSWERS_MAX} answers to the same request were wrong; {problem}")

    @staticmethod
    def _process_decision(decision: Any, tool_call: ToolCall, config: Any) -> tuple[ToolCall | None, ToolMessage | None]:
        check_decision(decision, tool_call["name"])
        return HumanInTheLoopMiddleware._process_decision(decision, tool_call, config)


def human_in_the_loop(
    interrupt_on: InterruptOn | None, *, known: Collection[str] | None = None
) -> list[AgentMiddleware[Any, Any, Any]]:
    """The middleware that asks a human before each call of these tools; none when no tool is named.

    `known` are the names of the tools that can be called, if they are known: a gate before a tool that does not exist is a
    slip that would leave the real one open. Raises `ValueError` for that and for a configuration that cannot be answered.
    """
    gated = {name: _checked(name, config) for name, config in (interrupt_on or {}).items() if config is not False}
    missing = sorted(gated.keys() - known) if known is not None else []
    if missing:
        raise ValueError(f"interrupt_on: no tool is called {', '.join(missing)}; there are {', '.join(sorted(known or ()))}")
    return [HumanReview(gated)] if gated else []


def _checked(name: str, config: Any) -> bool | InterruptOnConfig:
    where = f"interrupt_on['{name}']"
    if config is True:
        return True
    if not isinstance(config, Mapping):
        raise ValueError(f"{where}: give True, False or {{'allowed_decisions': [...]}}, not {config!r}")  # noqa: TRY004
    unknown = [str(key) for key in config if key not in _CONFIG_KEYS]
    if unknown:
        raise ValueError(f"{where}: unknown {', '.join(unknown)}; there are {', '.join(_CONFIG_KEYS)}")
    allowed = config.get("allowed_decisions")
    if not isinstance(allowed, list | tuple) or not allowed or not set(allowed) <= set(DECISIONS):
        raise ValueError(f"{where}: allowed_decisions is a list of {', '.join(DECISIONS)}; it is {allowed!r}")
    told: Any = {key: _guarded(where, key, value) if key in _CALLABLES else value for key, value in config.items()}
    checked: InterruptOnConfig = told
    return checked


def _guarded(where: str, key: str, value: Any) -> Any:
    """A user's function whose own errors cannot be taken for those of an answer."""
    if not callable(value):
        return value
    function: Callable[..., Any] = value

    def call(*given: Any) -> Any:
        try:
            return function(*given)
        except Exception as exc:
            raise RuntimeError(f"{where}: its {key} failed: {type(exc).__name__}: {exc}") from exc

    return call


def check_decision(decision: Any, name: str) -> None:
    """Raise `ValueError` when the decision about a call of the tool `name` is not whole."""
    if not isinstance(decision, Mapping) or decision.get("type") not in DECISIONS:
        raise ValueError(f"{decision!r} is no decision")
    if decision["type"] == "respond" and not isinstance(decision.get("message"), str):
        raise ValueError(f"the response in place of {name} has no message")
    if decision["type"] != "edit":
        return
    action = decision.get("edited_action")
    if not isinstance(action, Mapping) or not isinstance(action.get("args"), Mapping):
        raise ValueError(f"the edit of {name} has no edited_action with a name and args")  # noqa: TRY004
    if action.get("name") != name:
        raise ValueError(f"an edit keeps the tool: {name} cannot become {action.get('name')!r}")
