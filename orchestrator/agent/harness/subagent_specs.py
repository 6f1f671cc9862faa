"""What a subagent is made of: the specification a user writes, how it is checked, and the agent it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Required, TypedDict, get_type_hints

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, InterruptOnConfig
from langchain.agents.middleware.types import OmitFromSchema
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from orchestrator.agent.harness.humans import human_in_the_loop
from orchestrator.permissions import FilesystemPermission

Middleware = AgentMiddleware[Any, Any, Any]
Tool = BaseTool | Callable[..., Any] | dict[str, Any]
Model = str | BaseChatModel | Mapping[str, Any]
"""A name, a model, or the arguments of `init_chat_model`."""


class SubAgent(TypedDict, total=False):
    """An agent that the main agent can give tasks to. What is left out is the main agent's."""

    name: Required[str]
    """What the `task` tool calls it."""
    description: Required[str]
    """What it is good for: the main agent chooses by this."""
    system_prompt: str
    """Its instructions. Default: `DEFAULT_SUBAGENT_PROMPT`."""
    prompt: str
    """`system_prompt`, by its older name."""
    tools: Sequence[Tool]
    """Instead of the main agent's tools."""
    model: Model
    middleware: Sequence[Middleware]
    """After the middleware that all subagents have; one of the same name takes its place."""
    interrupt_on: dict[str, bool | InterruptOnConfig]
    """Tools that a human decides about. Needs a checkpointer in the main agent."""
    skills: Sequence[str]
    """Folders of skills."""
    permissions: Sequence[FilesystemPermission]
    """Rules for files, instead of the main agent's."""
    response_format: Any
    """The shape of its report: a type, a JSON schema, or a strategy of langchain. The report is then JSON."""


class CompiledSubAgent(TypedDict):
    """An agent that exists already, such as a compiled graph."""

    name: str
    description: str
    runnable: Runnable[Any, Any]
    """Takes and gives a state with `messages`."""


MiddlewareFor = Sequence[Middleware] | Callable[[SubAgent], Sequence[Middleware]]
"""The middleware of all subagents, or a function that makes it for each: only that can heed `skills` and `permissions`."""

DEFAULT_SUBAGENT_PROMPT = """\
Another agent gives you one task. It sees your last message and nothing else of your work, and cannot answer questions: decide
what is open, do the whole task with your tools, and end with a report that stands alone, with the findings themselves.
"""
GENERAL_PURPOSE = SubAgent(
    name="general-purpose",
    description="Has the same tools as you, and a conversation of its own: for research, searches and work of many steps of "
    "which you need only the outcome.",
)


@dataclass(frozen=True)
class Defaults:
    """What a subagent has unless its specification says otherwise."""

    model: Model
    tools: Sequence[Tool]
    middleware: MiddlewareFor
    interrupt_on: Mapping[str, bool | InterruptOnConfig] | None


@dataclass(frozen=True)
class Member:
    """A subagent that is ready to be called."""

    name: str
    description: str
    make: Callable[[], Runnable[Any, Any]]
    private: frozenset[str]
    """Keys of the state that its middleware keeps to itself."""

    @cached_property
    def runnable(self) -> Runnable[Any, Any]:
        """What is called."""
        return self.make()


def members(specs: Sequence[SubAgent | CompiledSubAgent], general_purpose: bool, defaults: Defaults) -> dict[str, Member]:
    """The subagents by name, the general one first. Raises `ValueError` where a specification is wrong, and says how."""
    found: dict[str, SubAgent | CompiledSubAgent] = {}
    for spec in specs:
        _check(spec)
        if spec["name"] in found:
            raise ValueError(f"there are two subagents called '{spec['name']}': the main agent could not tell them apart")
        found[spec["name"]] = spec
    general = GENERAL_PURPOSE["name"]
    if general_purpose and general not in found:
        found = {general: GENERAL_PURPOSE, **found}
    if not found:
        raise ValueError("there is no subagent: give one, or leave general_purpose_agent on")
    return {name: _member(spec, defaults) for name, spec in found.items()}


def _check(spec: Any) -> None:
    if not isinstance(spec, Mapping):
        raise ValueError(f"a subagent is a dictionary with name, description and system_prompt, not {spec!r}")  # noqa: TRY004
    who = f"the subagent {spec.get('name')!r}"
    for key in ("name", "description"):
        if not isinstance(spec.get(key), str) or not spec[key].strip():
            raise ValueError(f"{who} has no {key}: the main agent chooses by it")
    kind = CompiledSubAgent if "runnable" in spec else SubAgent
    unknown = sorted(str(key) for key in spec if key not in kind.__annotations__)
    if unknown:
        raise ValueError(f"{who} has unknown keys: {', '.join(unknown)}; there are {', '.join(kind.__annotations__)}")
    if "runnable" in spec and not isinstance(spec["runnable"], Runnable):
        raise ValueError(f"{who}: its runnable is {spec['runnable']!r}; give a compiled graph or another Runnable")
    if "prompt" in spec and "system_prompt" in spec:
        raise ValueError(f"{who} has a prompt and a system_prompt, which are two names of one thing: keep system_prompt")


def _member(spec: Any, defaults: Defaults) -> Member:
    if "runnable" in spec:
        return Member(spec["name"], spec["description"], lambda: spec["runnable"], frozenset())
    middleware = list(_layered(spec, defaults))
    make = partial(
        create_agent,
        _model(spec.get("model", defaults.model)),
        list(spec.get("tools", defaults.tools)),
        system_prompt=spec.get("system_prompt", spec.get("prompt", DEFAULT_SUBAGENT_PROMPT)),
        middleware=middleware,
        response_format=spec.get("response_format"),
        name=spec["name"],
    )
    member = Member(spec["name"], spec["description"], make, private_keys(middleware))
    if spec is not GENERAL_PURPOSE:  # ours can be made, and most agents never call it; another one tells now what is wrong
        _ = member.runnable
    return member


def _model(model: Model) -> str | BaseChatModel:
    if not isinstance(model, Mapping):
        return model
    made: BaseChatModel = init_chat_model(**model)
    return made


def _layered(spec: SubAgent, defaults: Defaults) -> Iterable[Middleware]:
    """The defaults, then the subagent's own, then the human; a later one takes the place of an earlier one of its name."""
    if callable(defaults.middleware):
        common = defaults.middleware(spec)
    elif unheeded := [key for key in ("skills", "permissions") if spec.get(key)]:
        raise ValueError(
            f"the subagent '{spec['name']}' has {' and '.join(unheeded)}, which a fixed list of middleware cannot heed: "
            "give default_middleware as a function of the specification, as create_deep_agent does"
        )
    else:
        common = defaults.middleware
    asked = human_in_the_loop(spec.get("interrupt_on", defaults.interrupt_on))
    return {part.name: part for part in (*common, *spec.get("middleware", ()), *asked)}.values()


def private_keys(middleware: Iterable[Middleware]) -> frozenset[str]:
    """Keys of the state that no one hands in from outside."""
    schemas: list[Any] = [part.state_schema for part in middleware]
    return frozenset(key for schema in schemas for key in _private(schema))


@lru_cache
def _private(schema: Any) -> frozenset[str]:
    hints = get_type_hints(schema, include_extras=True)
    return frozenset(key for key, hint in hints.items() if any(_is_private(mark) for mark in _marks(hint)))


def _is_private(mark: Any) -> bool:
    return isinstance(mark, OmitFromSchema) and mark.input


def _marks(hint: Any) -> tuple[Any, ...]:
    """What `Annotated` says of a field, also below `NotRequired`."""
    while not hasattr(hint, "__metadata__") and getattr(hint, "__args__", None):
        hint = hint.__args__[0]
    return getattr(hint, "__metadata__", ())
