"""`create_deep_agent`: a model in a loop with files, commands, a plan, subagents and a memory, as one langgraph graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, InterruptOnConfig
from langchain.agents.structured_output import ResponseFormat
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.cache.base import BaseCache
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from orchestrator.agent.harness.backend import BackendLike, Factory, accepted
from orchestrator.agent.harness.caching import prompt_caching
from orchestrator.agent.harness.fan_out import FanOut
from orchestrator.agent.harness.filesystem import FilesystemMiddleware, files_prompt
from orchestrator.agent.harness.humans import human_in_the_loop
from orchestrator.agent.harness.memory import MemoryMiddleware
from orchestrator.agent.harness.repair import PatchToolCallsMiddleware
from orchestrator.agent.harness.skills import SkillsMiddleware
from orchestrator.agent.harness.subagent_specs import Model
from orchestrator.agent.harness.subagents import (
    FORKS_SYSTEM_PROMPT,
    TASK_SYSTEM_PROMPT,
    CompiledSubAgent,
    SubAgent,
    SubAgentMiddleware,
)
from orchestrator.agent.harness.summarization import summarization
from orchestrator.agent.harness.todos import TODO_PROMPT, Todos, ToldTodos
from orchestrator.agent.models import initialized, provided
from orchestrator.permissions import FilesystemPermission
from sandboxes.protocol import BackendProtocol

DEFAULT_MODEL = "anthropic:claude-sonnet-4-20250514"

Middleware = AgentMiddleware[Any, Any, Any]
Tool = BaseTool | Callable[..., Any] | dict[str, Any]


def create_deep_agent(
    model: str | BaseChatModel | None = None,
    tools: Sequence[Tool] | None = None,
    *,
    system_prompt: str | None = None,
    middleware: Sequence[Middleware] = (),
    subagents: Sequence[SubAgent | CompiledSubAgent] | None = None,
    response_format: ResponseFormat[Any] | type[Any] | dict[str, Any] | None = None,
    context_schema: type[Any] | None = None,
    checkpointer: Checkpointer | None = None,
    store: BaseStore | None = None,
    backend: BackendLike | None = None,
    interrupt_on: dict[str, bool | InterruptOnConfig] | None = None,
    permissions: Sequence[FilesystemPermission] | None = None,
    memory: Sequence[str] | None = None,
    skills: Sequence[str] | None = None,
    debug: bool = False,
    name: str | None = None,
    cache: BaseCache[Any] | None = None,
    around: Sequence[Middleware] = (),
    delegates: bool = True,
    fan_out: FanOut | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A deep agent, ready to be invoked, awaited or streamed.

    Beside `tools` it has `write_todos`, `task` (subagents), `ls read_file write_file edit_file delete glob grep`, and `execute`
    where the backend runs commands.

    - `model`: a chat model or `PROVIDER:NAME`; None is Claude Sonnet 4.
    - `system_prompt`: instructions, before what the middleware says of its tools.
    - `middleware`: added to ours; one with the name of one of ours takes its place.
    - `subagents`: see `SubAgent`; a general-purpose one comes by itself.
    - `backend`: where the files are; None keeps them in the agent's state. `LocalShellBackend` gives the agent this machine.
    - `interrupt_on`: tools that a human decides about, in subagents too. Needs a `checkpointer`.
    - `permissions`: what may be read and written, by subagents too; see `FilesystemPermission`.
    - `memory`, `skills`: paths, in the backend, of AGENTS.md files and of folders of skills.
    - `around`: middleware that stands around everything, in this agent and in each of its subagents.
    - `delegates`: whether it has subagents at all; `fan_out`: who has some of them work elsewhere.
    - The others are those of langchain's `create_agent`.

    Raises `ValueError` where an argument is wrong (`PermissionsRefused` where permissions would not hold), and `BadInput` when
    the model cannot be had as it is named.
    """
    chat = provided(DEFAULT_MODEL if model is None else model) if not isinstance(model, BaseChatModel) else model
    stack = _Stack(chat, accepted(backend), permissions, skills, tuple(around))
    delegation = SubAgentMiddleware(
        default_model=chat,
        default_tools=tools or (),
        default_middleware=stack.of_subagent,
        default_interrupt_on=interrupt_on,
        subagents=subagents,
        system_prompt=None,
        fan_out=fan_out,
    )
    ours = stack.of_agent(memory, [delegation] if delegates else [])
    parts = _replaced([*ours, *middleware, *prompt_caching()], middleware)
    known = _names(tools or (), parts) | {name for spec in subagents or () for name in _own_names(spec)}
    return create_agent(
        chat,
        list(tools or ()),
        system_prompt=_prompt(system_prompt, stack.prompts(delegation.name, forks=fan_out is not None), parts, middleware),
        middleware=[*parts, *human_in_the_loop(interrupt_on, known=known)],
        response_format=response_format,
        context_schema=context_schema,
        checkpointer=checkpointer,
        store=store,
        debug=debug,
        name=name,
        cache=cache,
    )


@dataclass(frozen=True)
class _Stack:
    """The middleware of an agent and of its subagents."""

    model: BaseChatModel
    backend: BackendProtocol | Factory
    permissions: Sequence[FilesystemPermission] | None
    skills: Sequence[str] | None
    around: tuple[Middleware, ...]

    def of_agent(self, memory: Sequence[str] | None, delegation: Sequence[Middleware]) -> list[Middleware]:
        """That of the main agent, but for what the user adds."""
        remembering = [MemoryMiddleware(backend=self.backend, sources=memory)] if memory else []
        return [
            *self.around,
            ToldTodos(),
            *remembering,
            *self._skills(self.skills),
            self._files(self.permissions, told=True),
            *delegation,
            summarization(self.model, self.backend),
            PatchToolCallsMiddleware(),
        ]

    def of_subagent(self, spec: SubAgent) -> list[Middleware]:
        """That of one subagent: the main agent's, with its own model, skills and permissions."""
        return [
            *self.around,
            Todos(),
            *self._skills(spec.get("skills", self.skills)),
            self._files(spec.get("permissions", self.permissions)),
            summarization(_model_of(spec.get("model"), self.model), self.backend),
            PatchToolCallsMiddleware(),
            *prompt_caching(),
        ]

    def _skills(self, sources: Sequence[str] | None) -> list[Middleware]:
        return [SkillsMiddleware(backend=self.backend, sources=sources)] if sources else []

    def _files(self, permissions: Sequence[FilesystemPermission] | None, *, told: bool = False) -> Middleware:
        prompt = "" if told and isinstance(self.backend, BackendProtocol) else None
        return FilesystemMiddleware(backend=self.backend, permissions=permissions, system_prompt=prompt)

    def prompts(self, delegation: str, *, forks: bool) -> dict[str, str]:
        """What the main agent is told once and for all, by the names of the middleware that it is about."""
        files = files_prompt(self.backend) if isinstance(self.backend, BackendProtocol) else ""
        task = f"{TASK_SYSTEM_PROMPT}\n{FORKS_SYSTEM_PROMPT}" if forks else TASK_SYSTEM_PROMPT
        return {Todos().name: TODO_PROMPT, FilesystemMiddleware.__name__: files, delegation: task}


def _model_of(given: Model | None, default: BaseChatModel) -> BaseChatModel:
    """The model of a subagent."""
    if given is None or isinstance(given, BaseChatModel):
        return given or default
    return initialized(**given) if isinstance(given, Mapping) else provided(given)


def _prompt(given: str | None, prompts: Mapping[str, str], parts: Sequence[Middleware], own: Sequence[Middleware]) -> str:
    """The user's prompt, and what is to be said of those of our middleware that are still there.

    Said here, it costs nothing at each call of the model, and stays the same for a provider's cache.
    """
    ours = {part.name for part in parts if not any(part is one for one in own)}
    return "\n\n".join(text for text in [given, *(prompts[name] for name in prompts if name in ours)] if text)


def _replaced(parts: Sequence[Middleware], own: Sequence[Middleware]) -> list[Middleware]:
    """The parts without those of ours that the user's take the place of."""
    names = {part.name for part in own}
    return [part for part in parts if part.name not in names or any(part is one for one in own)]


def _own_names(spec: Any) -> set[str]:
    """The names of the tools that a subagent brings."""
    return _names(spec.get("tools") or (), spec.get("middleware") or ())


def _names(tools: Sequence[Tool], parts: Sequence[Middleware]) -> set[str]:
    """The names of all tools that the agent has."""
    every = [*tools, *(tool for part in parts for tool in getattr(part, "tools", ()))]
    return {str(tool.get("name", "")) if isinstance(tool, dict) else _name(tool) for tool in every}


def _name(tool: Any) -> str:
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", ""))
