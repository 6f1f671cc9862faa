"""The `task` tool: one call, one subagent, one report.

A subagent begins afresh each time, runs until it answers, and its last words become the result of the call. Several calls in
one answer run at the same time. What goes wrong inside one is an error result of its call alone. What ends the whole run (the
sandbox failed, the script of a test does not fit) is raised, after the subagents that run beside it have come to their end:
their work is recorded then, and whoever takes the run up again does not repeat it.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any

from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.agent.harness.fan_out import Answer, FanOut, Report, TaskCall
from orchestrator.agent.harness.repair import MalformedToolCalls
from orchestrator.agent.harness.subagent_specs import Member
from orchestrator.agent.harness.subagent_state import handed_back, handed_down
from orchestrator.agent.render import clean, clip
from orchestrator.errors import BadInput, FanfoldError
from sandboxes.errors import FanfoldSandboxError
from sandboxes.toolbox.calls import nested_scopes

ERROR_CAP = 2000
"""Characters of an exception's text that a message repeats."""
NO_REPORT = "[The subagent ended without a report.]"

_READ = "__pregel_read"
"""Where langgraph's configuration of a task holds the function that reads the state, bound to the channels."""


class TaskArguments(BaseModel):
    """Arguments of `task`."""

    model_config = ConfigDict(extra="forbid")

    description: str = Field(
        min_length=1, description="The whole task: what to do, all that has to be known for it, and what to report."
    )
    subagent_type: str = Field(description="Which subagent does it.")
    runtime: Annotated[Any, InjectedToolArg] = None


class Delegation:
    """Runs the subagents that an agent calls."""

    def __init__(self, members: Mapping[str, Member], private: frozenset[str], fan_out: FanOut | None) -> None:
        self._members = members
        self._private = private
        self._fan_out = fan_out
        self._siblings = _Siblings()

    def tool(self, description: str) -> BaseTool:
        """The tool `task`."""
        return StructuredTool.from_function(
            name="task",
            description=description,
            func=self.run,
            coroutine=self.arun,
            args_schema=TaskArguments,
            infer_schema=False,
        )

    def run(self, description: str, subagent_type: str, runtime: ToolRuntime[Any, Any]) -> ToolMessage | Command[Any]:
        """Run one subagent to its end. Raises `BadInput` where subagents fan out: that is async."""
        if self._fan_out is not None:
            raise BadInput("subagents of this agent work in places of their own: run it with ainvoke or astream")
        if subagent_type not in self._members:
            return self._unknown(subagent_type, runtime)
        task = _Task(self._members[subagent_type], description, runtime, self._private)
        with self._siblings.beside(task.message.id) as others, nested_scopes():
            try:
                return task.finished(task.member.runnable.invoke(task.state, task.config))
            except GraphBubbleUp:
                raise
            except Exception as exc:
                if not _ends_run(exc):
                    return task.failed(exc)
                wait(others())
                raise

    async def arun(self, description: str, subagent_type: str, runtime: ToolRuntime[Any, Any]) -> ToolMessage | Command[Any]:
        """Run one subagent to its end."""
        if subagent_type not in self._members:
            return self._unknown(subagent_type, runtime)
        task = _Task(self._members[subagent_type], description, runtime, self._private)
        with self._siblings.beside(task.message.id) as others, nested_scopes():
            try:
                if self._fan_out is not None and self._fan_out.takes(subagent_type):
                    return task.reported(await self._fan_out(task.call, task.answer(self._members)))
                return task.finished(await task.member.runnable.ainvoke(task.state, task.config))
            except GraphBubbleUp:
                raise
            except Exception as exc:
                if not _ends_run(exc):
                    return task.failed(exc)
                await asyncio.gather(*map(asyncio.wrap_future, others()))
                raise

    def _unknown(self, subagent_type: str, runtime: ToolRuntime[Any, Any]) -> ToolMessage:
        told = f"Error: there is no subagent {subagent_type!r}: subagent_type is one of {', '.join(self._members)}"
        return _result(told, runtime.tool_call_id, "error")


class _Task:
    """One call while it is carried out."""

    def __init__(self, member: Member, description: str, runtime: ToolRuntime[Any, Any], private: frozenset[str]) -> None:
        self.member = member
        self._id = str(runtime.tool_call_id)
        self._private = private | member.private
        self._channels = _channels(runtime.config)
        answers = (message for message in reversed(runtime.state["messages"]) if isinstance(message, AIMessage))
        self.message = next(answers)
        self.call = TaskCall(self._id, member.name, description)
        self.state = handed_down(runtime.state, description, self._private)

    @property
    def config(self) -> RunnableConfig:
        """What tells the subagent's run apart from its parent's, in traces and streams."""
        return {"run_name": self.member.name, "metadata": {"lc_agent_name": self.member.name}}

    def answer(self, members: Container[str]) -> Answer:
        """The answer that the call is of."""
        calls = [_task_call(call) for call in self.message.tool_calls if call["name"] == "task"]
        return Answer(str(self.message.id), tuple(call for call in calls if call and call.subagent_type in members))

    def finished(self, after: Any) -> Command[Any]:
        """The report, and what of the subagent's state comes back."""
        if not isinstance(after, Mapping) or "messages" not in after:
            raise ValueError("its runnable gave no state with messages")
        update = handed_back(
            self.state,
            after,
            channels=self._channels,
            private=self._private,
            complete=frozenset(getattr(self.member.runnable, "channels", ())),
            alone=len(self.message.tool_calls) == 1,
        )
        return Command(update={**update, "messages": [_result(report(after), self._id, "success")]})

    def reported(self, report: Report) -> Command[Any]:
        """What came of it elsewhere."""
        message = _result(report.text, self._id, "error" if report.failed else "success")
        return Command(update={**report.update, "messages": [message]})

    def failed(self, exc: Exception) -> ToolMessage:
        """What the main agent is told of a subagent that has not come to its end."""
        why = clip(f"{type(exc).__name__}: {exc}", ERROR_CAP)
        told = (
            f"Error: the subagent '{self.member.name}' failed before it could report ({why}). What it did may be half done: "
            "look before you ask again, with a smaller task or another subagent."
        )
        return _result(told, self._id, "error")


class _Siblings:
    """Which tasks of the same answer run now."""

    def __init__(self) -> None:
        self._running: dict[str | None, set[Future[None]]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def beside(self, message_id: str | None) -> Iterator[Callable[[], set[Future[None]]]]:
        """Run a task. The function that is given ends its part, and tells which others still run.

        To wait for them has no deadline of its own: it lasts no longer than they would have taken anyway.
        """
        mine: Future[None] = Future()
        # A future that runs cannot be cancelled by one who waits for it.
        mine.set_running_or_notify_cancel()
        with self._lock:
            self._running.setdefault(message_id, set()).add(mine)

        def leave() -> set[Future[None]]:
            with self._lock:
                others = self._running.get(message_id, set()) - {mine}
                if others:
                    self._running[message_id] = others
                else:
                    self._running.pop(message_id, None)
                if not mine.done():
                    mine.set_result(None)
            return others

        try:
            yield leave
        finally:
            leave()


def _task_call(call: ToolCall) -> TaskCall | None:
    """A call of `task`; None for one whose arguments are refused."""
    try:
        given = TaskArguments.model_validate(call["args"])
    except ValidationError:
        return None
    return TaskCall(str(call["id"]), given.subagent_type, given.description)


def report(state: Mapping[str, Any]) -> str:
    """What an agent that has ended has to say: its structured response as JSON, or its last words."""
    structured = state.get("structured_response")
    if structured is not None:
        return _json(structured)
    answers = (message for message in reversed(state["messages"]) if isinstance(message, AIMessage))
    return next((text for message in answers if (text := str(message.text).strip())), NO_REPORT)


def _json(value: Any) -> str:
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    return json.dumps(plain, ensure_ascii=False, default=str)


def _result(text: str, call_id: str | None, status: Any) -> ToolMessage:
    return ToolMessage(clean(text), name="task", tool_call_id=str(call_id), status=status)


def _ends_run(exc: Exception) -> bool:
    """Whether this is no business of the main agent's model: a failure below, or a human's answer that does not fit."""
    if isinstance(exc, MalformedToolCalls):
        return False
    return isinstance(exc, FanfoldError | FanfoldSandboxError) or is_invalid_resume(exc)


def _channels(config: RunnableConfig) -> Mapping[str, Any]:
    """The channels of the graph that runs this task; none outside of a graph."""
    read = config.get("configurable", {}).get(_READ)
    found: Mapping[str, Any] = read.args[1] if read is not None else {}
    return found
