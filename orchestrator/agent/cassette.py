"""Cassettes: what a model was asked and what it answered, in a file that people can read, diff and edit.

    model: anthropic:NAME
    tools:                       # each set of tools once
      t1: [{name: ls, ...}, ...]
    exchanges:
      - after: 0                 # the exchange (from 1) whose conversation this one continues; 0: it begins one
        tools: t1
        messages: [...]          # what is new in the conversation, normalized as `request` says
        response: {...}          # the answer, as it came

A request is looked up by its digest. The same request asked several times gets its answers in the order of the recording.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from typing import Any

import yaml
from pydantic import Field, model_validator

from orchestrator.agent.request import Json, Request, chain, request_key
from orchestrator.complaints import read_as
from orchestrator.errors import TaskFailed
from orchestrator.yamlfile import parse_yaml
from sandboxes.providers.base import Strict

CASSETTE_CAP = 64 * 1024 * 1024
"""Bytes of a cassette."""
DIFF_LINES = 60
"""Lines of a difference that a message shows."""
DIFF_SIDE = 4000
"""Lines of a request that are compared."""
WIDTH = 120

_ODD_BREAKS = re.compile("[\r\x85\u2028\u2029]")
"""Line breaks of YAML that are not `\\n`: only between double quotes do they come back as they were."""


class Response(Strict):
    """A model's answer."""

    content: str | list[Any] = ""
    tool_calls: list[Json] = Field(default_factory=list)
    """`id`, `name` and `args` of each."""
    usage: Json = Field(default_factory=dict)
    """As langchain's `usage_metadata`."""
    metadata: dict[str, str] = Field(default_factory=dict)
    """Which model it was, and why it stopped."""


class Exchange(Strict):
    """A request, told by what it adds to an earlier one, and its answer."""

    after: int = Field(0, ge=0)
    tools: str | None = None
    settings: Json = Field(default_factory=dict)
    messages: list[Json] = Field(default_factory=list)
    response: Response


class Cassette(Strict):
    """A recording."""

    model: str = ""
    """What was recorded."""
    tools: dict[str, list[Json]] = Field(default_factory=dict)
    exchanges: list[Exchange] = Field(default_factory=list)

    @model_validator(mode="after")
    def _hangs_together(self) -> Cassette:
        for number, exchange in enumerate(self.exchanges, start=1):
            if exchange.after >= number:
                raise ValueError(f"exchange {number} continues exchange {exchange.after}, which is not before it")
            if exchange.tools is not None and exchange.tools not in self.tools:
                raise ValueError(f"exchange {number} has the tools '{exchange.tools}', which are not in the cassette")
        return self


def load_cassette(data: bytes, source: str) -> Cassette:
    """Read a cassette. Raises `BadInput` with one line for each thing that is wrong with it."""
    return read_as(Cassette, parse_yaml(data, source=source))


class _Dumper(yaml.SafeDumper):
    """Plain YAML: texts of several lines as they are, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if _ODD_BREAKS.search(value) else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(value: Any) -> str:
    """A JSON value as YAML that diffs well."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)


def dump_cassette(cassette: Cassette) -> bytes:
    """The file of a cassette; `load_cassette` takes it back."""
    return as_yaml(cassette.model_dump(mode="json", exclude_defaults=True)).encode()


def joined(cassettes: Sequence[Cassette]) -> Cassette:
    """One recording out of several, the first one's exchanges first: of an agent, and of those that worked for it elsewhere."""
    tools: dict[str, list[Json]] = {}
    exchanges: list[Exchange] = []
    for one in cassettes:
        before = len(exchanges)
        names = {old: _named(known, tools) for old, known in one.tools.items()}
        for exchange in one.exchanges:
            after = exchange.after + before if exchange.after else 0
            exchanges.append(exchange.model_copy(update={"after": after, "tools": names.get(exchange.tools or "")}))
    return Cassette(model=cassettes[0].model, tools=tools, exchanges=exchanges)


def _named(wanted: list[Json], tools: dict[str, list[Json]]) -> str:
    """The name of a set of tools, which is added when it is new."""
    name = next((name for name, known in tools.items() if known == wanted), f"t{len(tools) + 1}")
    tools.setdefault(name, wanted)
    return name


@dataclass
class Deck:
    """Plays a cassette from its beginning: gives each request its next recorded answer."""

    file: str
    """How messages name the cassette."""
    cassette: Cassette
    _keys: list[str] = field(init=False, default_factory=list)
    _ends: list[str] = field(init=False, default_factory=lambda: [""])
    """Digest of the conversation at the end of each exchange's request; index 0 is the empty one."""
    _unused: dict[str, deque[int]] = field(init=False, default_factory=lambda: defaultdict(deque))

    def __post_init__(self) -> None:
        for index, exchange in enumerate(self.cassette.exchanges):
            begin = self._ends[exchange.after]
            self._ends.append([begin, *chain(begin, exchange.messages)][-1])
            key = request_key(self._ends[-1], self._tools(exchange), exchange.settings)
            self._keys.append(key)
            self._unused[key].append(index)

    def answer(self, request: Request) -> Response:
        """The recorded answer. Raises `TaskFailed` with what differs when this was never asked, or not so often."""
        waiting = self._unused.get(request.key)
        if waiting:
            return self.cassette.exchanges[waiting.popleft()].response
        asked = self._keys.count(request.key)
        if asked:
            raise TaskFailed(f"{self.file}: this request was recorded {asked} times and is now asked again; record it anew")
        raise TaskFailed(self._unknown(request))

    def _tools(self, exchange: Exchange) -> list[Json]:
        return self.cassette.tools[exchange.tools] if exchange.tools else []

    def _unknown(self, request: Request) -> str:
        """What the request differs in from the one that was recorded at its place."""
        nearest = self._nearest(request)
        if nearest is None:
            total = len(self.cassette.exchanges)
            return f"{self.file} ran out: it holds {total} answers, and all of them were given; record it again"
        exchange = self.cassette.exchanges[nearest]
        known = len(self._conversation(exchange.after))
        recorded = _as_lines(exchange.messages, self._tools(exchange), exchange.settings)
        asked = _as_lines(request.messages[known:], request.tools, request.settings)
        lines = list(unified_diff(recorded, asked, "recorded", "asked now", n=2, lineterm=""))
        cut = [f"... {len(lines) - DIFF_LINES} more lines"] if len(lines) > DIFF_LINES else []
        shown = "\n".join([*lines[:DIFF_LINES], *cut])
        return (
            f"{self.file} has no answer to this request; it differs from the one recorded as exchange {nearest + 1}:\n{shown}\n"
            f"If the change is meant, record it again: model: record:{self.file}={self.cassette.model or 'MODEL'}"
        )

    def _nearest(self, request: Request) -> int | None:
        """The unused exchange that continues the most of the request's conversation; None when all are used."""
        prefixes = {end: length for length, end in enumerate(["", *request.prefixes()])}
        unused = sorted(index for waiting in self._unused.values() for index in waiting)
        depth = {index: prefixes.get(self._ends[self.cassette.exchanges[index].after], -1) for index in unused}
        return max(unused, key=lambda index: (depth[index], -index), default=None)

    def _conversation(self, number: int) -> list[Json]:
        """All messages of the request of an exchange (from 1; 0: none)."""
        parts = []
        while number:
            exchange = self.cassette.exchanges[number - 1]
            parts.append(exchange.messages)
            number = exchange.after
        return [message for messages in reversed(parts) for message in messages]


def _as_lines(messages: Any, tools: Any, settings: Json) -> list[str]:
    """A request as YAML lines, what most often changes first."""
    value = {"settings": settings, "messages": list(messages), "tools": list(tools)}
    return as_yaml(value).splitlines()[:DIFF_SIDE]
