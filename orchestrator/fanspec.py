"""`fan_out` of a task: children that begin with the same workspace, each with a command or an agent of its own."""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainValidator, PrivateAttr, model_validator

from orchestrator.agentspec import AgentSpec
from orchestrator.childnames import check_child_name, child_names
from orchestrator.complaints import complaint
from orchestrator.fields import MAX_RETRIES, MAX_TIMEOUT, InsidePath, Text, check_filled, check_model
from orchestrator.mergespec import FanOutMerge
from orchestrator.placeholders import fill
from orchestrator.yamlfile import KeyPath
from sandboxes.providers.base import Duration, Strict

MAX_CHILDREN = 1000
"""Of one fan-out."""
MAX_FILLED = 16 * 1024**2
"""Characters of the templates of all children together, once they are filled."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

Scalar = str | int | float | bool


def _check_scalar(value: object) -> Scalar:
    if not isinstance(value, str | int | float):
        what = type(value).__name__
        raise ValueError(f"must be text, a number, true or false, not {what}: write text in quotes")  # noqa: TRY004 - pydantic's
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be a finite number")  # JSON, in which tasks are recorded, has no other
    if "\0" in _text(value):
        raise ValueError("must not contain NUL characters")
    return value


def _check_item(value: object) -> Scalar | dict[str, Scalar]:
    if not isinstance(value, dict):
        return _check_scalar(value)
    if not value:
        raise ValueError("is an empty mapping: give it a key, for `${{ item.KEY }}`")
    return {_check_key(key): _check_scalar(one) for key, one in value.items()}


def _check_key(value: object) -> str:
    if not isinstance(value, str) or not _KEY.fullmatch(value):
        raise ValueError(f"{value!r} cannot be a key of a placeholder: write letters, digits, _ and -, beginning with a letter")
    return value


def _text(value: Scalar) -> str:
    """A value as templates have it: as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


Value = Annotated[Scalar, PlainValidator(_check_scalar, json_schema_input_type=Scalar)]
Item = Annotated[Scalar | dict[str, Scalar], PlainValidator(_check_item, json_schema_input_type=Scalar | dict[str, Scalar])]
Key = Annotated[str, AfterValidator(_check_key)]


@dataclass(frozen=True)
class ChildSpec:
    """A child, its templates filled: a command or an agent."""

    name: str
    command: str | None = None
    agent: AgentSpec | None = None


class ChildTask(Strict):
    """A child that is written out."""

    name: Annotated[str, AfterValidator(check_child_name)]
    command: Text | None = None
    agent: AgentSpec | None = None

    @model_validator(mode="after")
    def _one_task(self) -> ChildTask:
        if (self.agent is None) == (self.command is None):
            raise ValueError("give exactly one of 'agent' and 'command'")
        return self


class FanOutSpec(Strict):
    """Children by a list of items, by a matrix, or written out; and how their work becomes one."""

    items: tuple[Item, ...] | None = None
    """A child for each: `${{ item }}`, or `${{ item.KEY }}` of a mapping."""
    matrix: dict[Key, tuple[Value, ...]] | None = None
    """A child for each combination of values, the last key's changing fastest: `${{ matrix.KEY }}`."""
    tasks: tuple[ChildTask, ...] | None = None
    command: Text | None = None
    """The template of a shell command, with `items` or `matrix`. Values are quoted for the shell."""
    agent: AgentSpec | None = None
    """The template of an agent, instead: placeholders in its prompt, system prompt and model."""
    max_parallel: int | None = Field(None, gt=0, le=MAX_CHILDREN)
    """Children at work at the same time. Default: all that the quotas allow."""
    on_child_failure: Literal["continue", "cancel"] = "continue"
    """When a child fails, the others go on; or they are cancelled, and the run fails."""
    timeout: Duration | None = Field(None, le=MAX_TIMEOUT)
    """Seconds for each child, all its attempts together. Default: the run's."""
    retries: int = Field(0, ge=0, le=MAX_RETRIES)
    """How often a child's failed attempt is tried again, in a fresh fork."""
    files: tuple[InsidePath, ...] = ()
    """Globs; what matches in a child's workspace becomes an artifact of the child."""
    merge: FanOutMerge = FanOutMerge()

    _children: tuple[ChildSpec, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _consistent(self) -> FanOutSpec:
        self._check_source()
        self._check_agents()
        self._children = tuple(self._filled() if self.tasks is None else self._written_out(self.tasks))
        return self

    def children(self) -> tuple[ChildSpec, ...]:
        """The children, in task order."""
        return self._children

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the children and of who settles their conflicts, each once."""
        found = [child.agent.model for child in self._children if child.agent]
        return tuple(dict.fromkeys([*found, *self.merge.models]))

    def agents(self) -> Iterator[tuple[KeyPath, AgentSpec]]:
        """The agents as they are written, each with its place."""
        if self.agent is not None:
            yield ("agent",), self.agent
        for index, task in enumerate(self.tasks or ()):
            if task.agent is not None:
                yield ("tasks", index, "agent"), task.agent

    def _check_source(self) -> None:
        sources = [name for name in ("items", "matrix", "tasks") if getattr(self, name) is not None]
        if len(sources) != 1:
            raise ValueError(f"give exactly one of 'items', 'matrix' and 'tasks', not {' and '.join(sources) or 'none'}")
        templates = [name for name in ("command", "agent") if getattr(self, name) is not None]
        if self.tasks is not None and templates:
            raise complaint((templates[0],), "is for 'items' and 'matrix': each of 'tasks' has its own")
        if self.tasks is None and len(templates) != 1:
            raise ValueError(f"give exactly one of 'command' and 'agent', not {' and '.join(templates) or 'none'}")
        count = self._count()
        if not count:
            raise complaint((sources[0],), "has nothing to make a child of")
        if count > MAX_CHILDREN:
            raise complaint((sources[0],), f"makes {count} children; a fan-out has at most {MAX_CHILDREN}")

    def _count(self) -> int:
        if self.matrix is not None:
            return math.prod(len(values) for values in self.matrix.values()) if self.matrix else 0
        return len(self.items or self.tasks or ())

    def _check_agents(self) -> None:
        for place, agent in self.agents():
            if agent.asked_about():
                raise complaint(
                    (*place, "interrupt_on"),
                    "children cannot ask a person; leave it out, or close what they must not do with `permissions`",
                )

    def _written_out(self, tasks: tuple[ChildTask, ...]) -> Iterator[ChildSpec]:
        names: set[str] = set()
        for index, task in enumerate(tasks):
            if task.name in names:
                raise complaint(("tasks", index, "name"), f"another child is called '{task.name}': give each its own name")
            names.add(task.name)
            yield ChildSpec(task.name, task.command, task.agent)

    def _filled(self) -> Iterator[ChildSpec]:
        combinations = [_values(item) for item in self.items] if self.items is not None else list(_products(self.matrix or {}))
        left = MAX_FILLED
        for name, values in zip(child_names([_about(one) for one in combinations]), combinations, strict=True):
            child, size = self._child(name, values)
            left -= size
            if left < 0:
                raise ValueError(f"the templates come to more than {MAX_FILLED} characters for all children: put text in files")
            yield child

    def _child(self, name: str, values: Mapping[str, str]) -> tuple[ChildSpec, int]:
        """A child, and how many characters its templates came to."""
        if self.command is not None:
            command = _fill(("command",), self.command, values, name, check_filled, shlex.quote)
            return ChildSpec(name, command=command), len(command)
        assert self.agent is not None
        checks = {"prompt": check_filled, "system_prompt": check_filled, "model": check_model}
        given = {field: text for field in checks if (text := getattr(self.agent, field)) is not None}
        filled = {field: _fill(("agent", field), text, values, name, checks[field]) for field, text in given.items()}
        return ChildSpec(name, agent=self.agent.model_copy(update=filled)), sum(map(len, filled.values()))


def _values(item: Scalar | dict[str, Scalar]) -> dict[str, str]:
    """What the placeholders of an item stand for."""
    if isinstance(item, dict):
        return {f"item.{key}": _text(value) for key, value in item.items()}
    return {"item": _text(item)}


def _products(matrix: Mapping[str, tuple[Scalar, ...]]) -> Iterator[dict[str, str]]:
    for values in itertools.product(*matrix.values()):
        yield {f"matrix.{key}": _text(value) for key, value in zip(matrix, values, strict=True)}


def _about(values: Mapping[str, str]) -> str:
    """What a child is called after: the `name` of its item, or all of its values."""
    return values.get("item.name") or "-".join(values.values())


def _fill(
    place: KeyPath,
    text: str,
    values: Mapping[str, str],
    child: str,
    check: Callable[[str], str],
    quote: Callable[[str], str] = str,
) -> str:
    try:
        return check(fill(text, values, quote=quote))
    except ValueError as exc:
        raise complaint(place, f"of the child '{child}': {exc}") from exc
