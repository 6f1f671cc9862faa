"""Agents with subagents whose models are functions of the conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NotRequired, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from orchestrator.agent.harness.subagents import SubAgentMiddleware
from sandboxes.backends.state import merge_files

CONFIG: Any = {"configurable": {"thread_id": "1"}}


class Model(BaseChatModel):
    """Answers with what the function makes of the conversation; keeps what it was shown and which tools it has."""

    answer: Callable[[list[BaseMessage]], AIMessage]
    shown: list[list[BaseMessage]] = []
    tools: list[str] = []

    @property
    def _llm_type(self) -> str:
        return "function"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self.tools[:] = [getattr(one, "name", "") for one in tools]
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.shown.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])


def model(answer: Callable[[list[BaseMessage]], AIMessage]) -> Model:
    return Model(answer=answer, shown=[], tools=[])


def says(text: str) -> Model:
    return model(lambda messages: AIMessage(text))


def calls(*requests: tuple[str, str, dict[str, Any]], then: str = "done") -> Model:
    """Asks for these tools (id, name, args) at once, then says `then`."""
    asked = [{"id": key, "name": name, "args": args} for key, name, args in requests]
    return model(lambda messages: AIMessage(then) if ran(messages) else AIMessage("", tool_calls=asked))


def ran(messages: list[BaseMessage]) -> bool:
    return any(isinstance(message, ToolMessage) for message in messages)


def task(key: str, subagent: str, description: str = "Do it.") -> tuple[str, str, dict[str, Any]]:
    return key, "task", {"subagent_type": subagent, "description": description}


def spec(name: str, its_model: Any, **more: Any) -> Any:
    return {"name": name, "description": f"Does {name}.", "system_prompt": f"You are {name}.", "model": its_model, **more}


class Shared(TypedDict):
    """Keys that an agent and its subagents may share."""

    messages: list[Any]
    files: Annotated[NotRequired[dict[str, Any]], merge_files]
    log: NotRequired[Annotated[list[str], lambda old, new: old + new]]
    total: NotRequired[Annotated[int, lambda old, new: old + new]]
    best: NotRequired[Annotated[int, lambda old, new: max(old, new)]]
    last: NotRequired[Annotated[str, lambda old, new: new]]
    note: NotRequired[str]
    todos: NotRequired[list[str]]
    secret: NotRequired[Annotated[str, PrivateStateAttr]]
    _hidden: NotRequired[str]


class State(AgentMiddleware[Any, Any, Any]):
    """Gives an agent the keys of `Shared`."""

    state_schema: Any = Shared


class Writes(State):
    """A subagent's state after its work: `change` of its state before; keeps what it was before."""

    def __init__(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.change = change
        self.seen: list[dict[str, Any]] = []

    def after_agent(self, state: Any, runtime: Any) -> Any:
        self.seen.append(dict(state))
        return self.change(state)


def agent(parent: BaseChatModel, *subagents: Any, middleware: Any = (), checkpointer: Any = None, **given: Any) -> Any:
    """An agent with these subagents; without a general one unless `general_purpose_agent` asks for it."""
    given = {"default_model": parent, "general_purpose_agent": False, **given}
    parts = [SubAgentMiddleware(subagents=list(subagents), **given), State(), *middleware]
    return create_agent(parent, [], system_prompt="You lead.", middleware=parts, checkpointer=checkpointer, name="lead")


def ask(text: str = "Go.", **state: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)], **state}


def results(state: Any) -> dict[str, tuple[str, str]]:
    """Status and text of the tool results, by the id of their call."""
    return {m.tool_call_id: (m.status, str(m.text)) for m in state["messages"] if isinstance(m, ToolMessage)}


def fails(exc: Exception) -> Any:
    def answer(messages: list[Any]) -> AIMessage:
        raise exc

    return model(answer)


class Counting:
    """Tools that count how often they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @tool
        def send(to: str) -> str:
            """Send a letter."""
            self.ran.append(to)
            return f"sent to {to}"

        @tool
        def look() -> str:
            """Look."""
            self.ran.append("look")
            return "seen"

        self.send, self.look = send, look

    def sender(self, name: str) -> Any:
        """A subagent that sends a letter to its own name, and asks first."""
        its_model = calls((f"s-{name}", "send", {"to": name}), then=f"told {name}")
        return spec(name, its_model, tools=[self.send], interrupt_on={"send": True})


def decide(kind: str = "approve", **more: Any) -> dict[str, Any]:
    return {"decisions": [{"type": kind, **more}]}
