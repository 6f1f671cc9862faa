"""Reading YAML that a stranger may have written: one document, plain data, nothing that grows or nests without end."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from orchestrator.errors import BadInput

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 100_000
"""Values in the document, each alias counted as a copy of what it stands for."""

# The C loader is some 20 times faster; it also overflows its stack on deep nesting, so `_scan` comes before `compose`.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """The value of a YAML file, and the line of each key in it."""

    value: Any
    source: str
    """How messages name it."""
    lines: dict[KeyPath, int] = field(default_factory=dict)
    """1-based, by the path of keys and indexes."""

    def line(self, path: KeyPath) -> int:
        """The line of the nearest thing on `path` that is in the file; 0 when nothing of it is."""
        return next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), 0)

    def where(self, path: KeyPath) -> str:
        """`task.yaml:12`, or `task.yaml` when nothing of `path` is in the file."""
        line = self.line(path)
        return f"{self.source}:{line}" if line else self.source


def read_yaml(path: Path) -> Document:
    """Read one YAML document of plain data. Raises `BadInput` when there is none or it breaks a rule of this module."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError as exc:
        raise BadInput(f"{path}: there is no such file") from exc
    except OSError as exc:
        raise BadInput(f"{path}: cannot be read: {exc.strerror}") from exc
    if len(data) > MAX_BYTES:
        raise BadInput(f"{path}: larger than {MAX_BYTES // 1024} KiB; put large text in a file among the inputs")
    return parse_yaml(data, source=path.name)


def parse_yaml(data: bytes, *, source: str) -> Document:
    """Like `read_yaml`, over bytes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise BadInput(f"{source}: is not UTF-8 text (byte {exc.start})") from exc
    try:
        _scan(text, source)
        node = yaml.compose(text, Loader=_Loader)
        if node is None:
            return Document(None, source)
        _check_size(node, source)
        lines: dict[KeyPath, int] = {}
        _check_keys(node, (), lines, source)
        return Document(yaml.load(text, Loader=_Loader), source, lines)  # noqa: S506 - a safe loader
    except yaml.YAMLError as exc:
        raise BadInput(_syntax_message(exc, source)) from exc
    except ValueError as exc:
        raise BadInput(f"{source}: {exc}") from exc  # an impossible date, for one


def _syntax_message(exc: yaml.YAMLError, source: str) -> str:
    mark = getattr(exc, "problem_mark", None)
    problem = getattr(exc, "problem", None) or str(exc).splitlines()[0]
    place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
    return f"{place}: not valid YAML: {problem}"


def _line(thing: yaml.Event | yaml.Node) -> int:
    return thing.start_mark.line + 1 if thing.start_mark else 0


def _scan(text: str, source: str) -> None:
    """Refuse deep nesting and more than one document before anything recursive looks at the text."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise BadInput(f"{source}:{_line(event)}: nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise BadInput(f"{source}:{_line(event)}: a second document begins here; only one is allowed")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _check_size(root: yaml.Node, source: str) -> None:
    """Count the values, aliases expanded, without expanding them."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        key = id(node)
        if key in open_nodes:
            raise BadInput(f"{source}:{_line(node)}: contains itself through an alias")
        if key not in sizes:
            open_nodes.add(key)
            sizes[key] = 1 + sum(size(child) for child in _children(node))
            open_nodes.discard(key)
        return sizes[key]

    if size(root) > MAX_NODES:
        raise BadInput(f"{source}: more than {MAX_NODES} values once its aliases are expanded")


def _check_keys(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], source: str) -> None:
    """Note the line of every key; refuse a key that stands twice in one mapping."""
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            lines[(*path, index)] = _line(child)
            _check_keys(child, (*path, index), lines, source)
    elif isinstance(node, yaml.MappingNode):
        seen: dict[Hashable, int] = {}
        for key, child in node.value:
            line, name = _line(key), (key.tag, str(key.value))
            if name in seen and key.tag != "tag:yaml.org,2002:merge":
                raise BadInput(f"{source}:{line}: the key '{key.value}' stands here and in line {seen[name]}; keep one of them")
            seen[name] = line
            lines[(*path, str(key.value))] = line
            _check_keys(child, (*path, str(key.value)), lines, source)
