"""The script of a scripted model: what is said and asked in each turn, and what is expected to have come back before it.

    turns:
      - text: I run the tests first.
        tool_calls:
          - {id: tests, name: execute, args: {command: make test}}
      - expect: {result: tests, contains: "FAILED", status: success}
        text: "{{ results.tests.match('(\\d+) failed') }} tests fail."
    subagents:
      - when: ^Review
        turns:
          - text: I see nothing wrong with {{ prompt.match('^Review (.+)') }}.

A conversation whose prompt (what the agent was asked) matches the `when` of a part follows the first such part, every other
one follows the `turns` at the top. Everything that can be checked without running it is checked when the script is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from orchestrator.agent.templates import check_regex, parse_template
from orchestrator.complaints import read_as
from orchestrator.yamlfile import parse_yaml
from sandboxes.providers.base import Strict


def _one_or_more(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _check_template(value: str) -> str:
    parse_template(value)
    return value


def _check_regex(value: str) -> str:
    check_regex(value)
    return value


def check_templates(value: Any) -> Any:
    """`value` itself; every text in it must be a template. Raises `ValueError`."""
    for text in texts(value):
        parse_template(text)
    return value


def texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value; the keys of mappings are left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


Texts = Annotated[tuple[str, ...], BeforeValidator(_one_or_more)]
TemplateText = Annotated[str, AfterValidator(_check_template)]
Pattern = Annotated[str, AfterValidator(_check_regex)]


class Expectation(Strict):
    """What must hold for what the model is shown when its turn comes; otherwise the run fails.

    Without `result` it is about all tool results since the turn before, or about the prompt in the first turn.
    """

    result: str | None = None
    """The id of a tool call of an earlier turn."""
    contains: Texts = ()
    """Each of these stands in (one of) the results."""
    not_contains: Texts = ()
    """None of these stands in any of them."""
    matches: Annotated[tuple[Pattern, ...], BeforeValidator(_one_or_more)] = ()
    """Each of these regular expressions matches somewhere in (one of) them; `^` and `$` mean lines."""
    status: Literal["success", "error"] | None = None
    """All of them have this status. A command that failed is a `success` of the tool: look at its exit code."""

    @model_validator(mode="after")
    def _says_something(self) -> Expectation:
        if not (self.contains or self.not_contains or self.matches or self.status):
            raise ValueError("expects nothing: give contains, not_contains, matches or status")
        return self


class ScriptedCall(Strict):
    """A tool call. The texts in `args` are templates."""

    id: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    """How later turns refer to its result. Default: `turn2_1` is the first call of the second turn."""
    name: str
    args: Annotated[dict[str, Any], AfterValidator(check_templates)] = Field(default_factory=dict)


class ScriptedUsage(Strict):
    """Tokens that the model tells for this turn."""

    input_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)


class Turn(Strict):
    """One answer of the model."""

    expect: Annotated[tuple[Expectation, ...], BeforeValidator(_one_or_more)] = ()
    text: TemplateText = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: ScriptedUsage | None = None


class Part(Strict):
    """The turns of one conversation, checked as a whole."""

    turns: tuple[Turn, ...] = Field(min_length=1)

    def call_ids(self, turn: int) -> list[str]:
        """Ids of the tool calls of a turn (0-based)."""
        calls = self.turns[turn].tool_calls
        return [call.id or f"turn{turn + 1}_{number}" for number, call in enumerate(calls, start=1)]

    def _place(self) -> str:
        """How messages about its turns begin."""
        return ""

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        known: set[str] = set()
        for index, turn in enumerate(self.turns):
            where = f"{self._place()}turn {index + 1}"
            for used in sorted(_ids_used(turn) - known):
                raise ValueError(f"{where}: no earlier turn has a tool call with the id '{used}'")
            if not turn.tool_calls and index + 1 < len(self.turns):
                raise ValueError(f"{where} calls no tool, so the agent ends there and never reaches the turns after it")
            for given in self.call_ids(index):
                if given in known:
                    raise ValueError(f"{where}: the tool call id '{given}' is there twice")
                known.add(given)
        return self


class SubagentPart(Part):
    """What the model says to those who were asked something that `when` matches."""

    when: Pattern
    """A regular expression that matches somewhere in the prompt; `^` and `$` mean lines."""

    def _place(self) -> str:
        return f"of {self.when!r}: "


class Script(Part):
    """A script: what the agent is told, and what its subagents are, and who settles conflicts."""

    subagents: tuple[SubagentPart, ...] = ()
    """Of several parts whose `when` matches a prompt the first is followed."""


def _ids_used(turn: Turn) -> set[str]:
    used = {expectation.result for expectation in turn.expect if expectation.result}
    for text in texts([turn.text, *(call.args for call in turn.tool_calls)]):
        used |= parse_template(text).ids
    return used


def load_script(data: bytes, source: str) -> Script:
    """Read a script. Raises `BadInput` with one line for each thing that is wrong with it."""
    return read_as(Script, parse_yaml(data, source=source))
