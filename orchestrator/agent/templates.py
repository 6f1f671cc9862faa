"""The templates of a model script: text with references to what the tools answered.

    {{ prompt }}                                    what the agent was asked
    {{ prompt.match('REGEX') }}                     the first match in that, as below
    {{ results.ID.text }}  {{ results.ID.status }}  the result of the tool call with this id; `success` or `error`
    {{ results.ID.match('REGEX') }}                 its first match: the first group, or the whole when there is none
    {{ results.ID.match('REGEX', 2) }}              the second group
    {{ '{{' }}                                      the text between the quotes

That is all there is: a reference is parsed against this list, never evaluated, since a script may come from a stranger. Time
and size have budgets: a regular expression cannot run for long, and references cannot multiply into endless text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

import regex

RENDER_CAP = 16 * 1024 * 1024
"""Characters that the references of one turn may expand to."""
REGEX_SECONDS = 2.0
"""Seconds that the regular expressions of one turn may take together."""
REGEX_CAP = 1000
"""Characters of a regular expression."""
SHOWN_CAP = 80
"""Characters of a template that a message repeats."""

_QUOTED = r"'[^']*'|\"[^\"]*\""
_REFERENCE = re.compile(
    r"\{\{\s*(?:"
    r"(?P<prompt>prompt)"
    rf"|(?P<literal>{_QUOTED})"
    r"|results\.(?P<id>[A-Za-z_]\w*)\.(?P<field>text|status)"
    rf"|(?:prompt|results\.(?P<of>[A-Za-z_]\w*))\.match\(\s*(?P<regex>{_QUOTED})\s*(?:,\s*(?P<group>\d{{1,2}})\s*)?\)"
    r")\s*\}\}"
)


class TemplateError(ValueError):
    """A reference that has no value: no such result, no match, a budget used up."""


@dataclass(frozen=True)
class Result:
    """What a tool answered, as a script sees it."""

    text: str
    status: str


@dataclass(frozen=True)
class Reference:
    """One `{{ ... }}`. Without an `id` it is the prompt."""

    id: str | None = None
    field: str = "text"
    pattern: str | None = None
    group: int = 0


@dataclass(frozen=True)
class Template:
    """Text with references, parsed."""

    parts: tuple[str | Reference, ...]

    @property
    def ids(self) -> set[str]:
        """The tool calls it refers to."""
        return {part.id for part in self.parts if isinstance(part, Reference) and part.id}


def parse_template(text: str) -> Template:
    """Raises `ValueError` for a `{{` that does not begin one of the references listed above."""
    parts: list[str | Reference] = []
    at = 0
    while (begin := text.find("{{", at)) >= 0:
        match = _REFERENCE.match(text, begin)
        if not match:
            shown = text[begin : begin + SHOWN_CAP].split("}}")[0] + "}}"
            raise ValueError(
                f"{shown!r} is not a reference: write {{{{ prompt }}}}, {{{{ prompt.match('REGEX') }}}}, "
                "{{ results.ID.text }}, {{ results.ID.status }}, {{ results.ID.match('REGEX') }}, "
                "or {{ '{{' }} for the braces themselves"
            )
        parts += [text[at:begin], _reference(match)]
        at = match.end()
    return Template(tuple(part for part in (*parts, text[at:]) if part != ""))


def _reference(match: re.Match[str]) -> str | Reference:
    if match["literal"]:
        return match["literal"][1:-1]
    if match["prompt"]:
        return Reference()
    if match["regex"] is None:
        return Reference(match["id"], match["field"])
    pattern = match["regex"][1:-1]
    groups = check_regex(pattern).groups
    group = int(match["group"]) if match["group"] else min(1, groups)
    if group > groups:
        raise ValueError(f"the regular expression {pattern!r} has {groups} groups, so group {group} has no value")
    return Reference(match["of"], "text", pattern, group)


def check_regex(pattern: str) -> regex.Pattern[str]:
    """The compiled pattern, of the syntax of `re`. Raises `ValueError` when it is none, or too long."""
    if len(pattern) > REGEX_CAP:
        raise ValueError(f"a regular expression of {len(pattern)} characters is too long (at most {REGEX_CAP})")
    try:
        re.compile(pattern)  # the plainer syntax: without recursion, whose memory has no bound
        return regex.compile(pattern, regex.MULTILINE)
    except (re.error, regex.error, RecursionError, OverflowError) as exc:
        raise ValueError(f"{pattern!r} is not a regular expression: {exc}") from exc


class Renderer:
    """Fills the templates of one turn, within its budgets of time and size."""

    def __init__(self, prompt: str, results: Mapping[str, Result]) -> None:
        self._prompt = prompt
        self._results = results
        self._characters = RENDER_CAP
        self._seconds = REGEX_SECONDS

    def render(self, template: Template) -> str:
        """Raises `TemplateError` when a reference has no value."""
        parts = []
        for part in template.parts:
            parts.append(self._value(part) if isinstance(part, Reference) else part)
            self._characters -= len(parts[-1])
            if self._characters < 0:
                raise TemplateError(f"the templates of this turn expand to more than {RENDER_CAP} characters")
        return "".join(parts)

    def search(self, pattern: str, text: str) -> regex.Match[str] | None:
        """The first match of a regular expression (`^` and `$` mean lines), within the turn's budget of time."""
        began = time.monotonic()
        try:
            # `concurrent` lets go of the interpreter's lock, so that no other run waits for this search.
            return check_regex(pattern).search(text, timeout=max(self._seconds, 0.001), concurrent=True)
        except TimeoutError as exc:
            raise TemplateError(f"the regular expression {pattern!r} takes too long on this text") from exc
        finally:
            self._seconds -= time.monotonic() - began

    def _value(self, reference: Reference) -> str:
        if reference.id is None:
            return self._matched(reference, self._prompt, "the prompt")
        result = self._results.get(reference.id)
        if result is None:
            raise TemplateError(f"the tool call '{reference.id}' has no result")
        if reference.field == "status":
            return result.status
        return self._matched(reference, result.text, f"the result of '{reference.id}'")

    def _matched(self, reference: Reference, text: str, named: str) -> str:
        """All of `text`, or what the reference's regular expression finds in it."""
        if reference.pattern is None:
            return text
        match = self.search(reference.pattern, text)
        value = match.group(reference.group) if match else None
        if value is None:
            raise TemplateError(f"nothing in {named} matches {reference.pattern!r}")
        return str(value)
