"""Three YAML or TOML texts into one, by key, as pieces of text: comments and layout stay as somebody wrote them.

A text is cut where its keys begin, the pieces are merged by key, and put together again. What that means as data is merged as
well, and the text counts only when it means the same. So the cutting may be simple: where it errs, lines are merged instead.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from sandboxes.workspace.merge.bykey import MISSING, Unmergeable, merge_values, order, same

CAP: Final = 1024 * 1024
"""Bytes of a text that is merged by key."""
DEPTH_CAP: Final = 64
"""Levels of a YAML text."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NAME = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_TABLE: Final = re.compile(r"\s*(\[\[?[^\[\]]+\]\]?)\s*(?:#.*)?$")
_KEY: Final = re.compile(rf"\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*=")


@dataclass
class Piece:
    """A part of a text: what comes before its first key, and the piece of each key."""

    head: str
    parts: dict[Hashable, Piece] = field(default_factory=dict)

    def text(self) -> str:
        """The whole."""
        text = self.head
        for part in self.parts.values():
            text += "\n" * (not text.endswith("\n") and bool(text)) + part.text()
        return text

    def add(self, key: Hashable, part: Piece) -> Piece:
        """Add the piece of a key. Raises `Unmergeable` when there is one already."""
        if key in self.parts:
            raise Unmergeable
        self.parts[key] = part
        return part


def merge_yaml(base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
    """A YAML document with the changes of both sides, key by key. Without a base all keys are new.

    None when both changed the same value, or list; when a side is no single document in UTF-8, or has aliases.
    """
    return _merge(_read_yaml, _cut_yaml, base, ours, theirs)


def merge_toml(base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
    """A TOML document with the changes of both sides, as `merge_yaml`."""
    return _merge(tomllib.loads, _cut_toml, base, ours, theirs)


def _merge(
    read: Callable[[str], Any], cut: Callable[[str], Piece], base: bytes | None, ours: bytes, theirs: bytes
) -> bytes | None:
    try:
        if max(len(base or b""), len(ours), len(theirs)) > CAP:
            return None
        texts = ["" if base is None else base.decode(), ours.decode(), theirs.decode()]
        values = [MISSING if base is None else read(texts[0]), read(texts[1]), read(texts[2])]
        merged = merge_values(*values)
        text = _merge_pieces(*map(cut, texts)).text()
        return text.encode() if same(read(text), merged) else None
    except (ValueError, RecursionError, yaml.YAMLError, Unmergeable):
        return None


def _merge_pieces(base: Piece | None, ours: Piece | None, theirs: Piece | None) -> Piece:
    """As `merge_values`, for pieces that both sides changed. Raises `Unmergeable`."""
    if ours is None or theirs is None or not (ours.parts and theirs.parts):
        raise Unmergeable
    before = base or Piece("")
    merged = Piece(_head(before.head, ours.head, theirs.head))
    for key in order(ours.parts, theirs.parts):
        old, one, other = (side.parts.get(key) for side in (before, ours, theirs))
        if other in (one, old):
            chosen = one
        elif one == old:
            chosen = other
        else:
            chosen = _merge_pieces(old, one, other)
        if chosen is not None:
            merged.add(key, chosen)
    return merged


def _head(base: str, ours: str, theirs: str) -> str:
    """What stands before the keys. Raises `Unmergeable` when both sides changed it: comments are work, too."""
    if theirs in (ours, base):
        return ours
    if ours == base:
        return theirs
    raise Unmergeable


def _read_yaml(text: str) -> Any:
    """The data. Raises `Unmergeable` for what could nest, or grow, without end."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_CAP or isinstance(event, yaml.AliasEvent):
            raise Unmergeable
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader


def _cut_yaml(text: str) -> Piece:
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    root = yaml.compose(text, Loader=_Loader)
    return _cut_node(root, lines, 0, len(lines)) if root is not None else Piece(text)


def _cut_node(node: yaml.Node, lines: list[str], start: int, end: int) -> Piece:
    """The lines of a node, in parts if it is a block mapping with its keys on lines of their own."""
    whole = Piece("".join(lines[start:end]))
    if not isinstance(node, yaml.MappingNode) or node.flow_style or not node.value:
        return whole
    starts, floor = [], start
    for key, value in node.value:
        row, column = key.start_mark.line, key.start_mark.column
        if not isinstance(key, yaml.ScalarNode) or lines[row][:column].strip():
            return whole
        while row > floor and re.match(r"\s*(#|$)", lines[row - 1]):  # comments belong to the key below them
            row -= 1
        starts.append(row)
        floor = _last_line(value)
    piece = Piece("".join(lines[start : starts[0]]))
    for (key, value), here, there in zip(node.value, starts, [*starts[1:], end], strict=True):
        piece.add((key.tag, key.value), _cut_node(value, lines, here, there))
    return piece


def _last_line(node: yaml.Node) -> int:
    """The line behind the last one with something of a node: a block's own end is where the next thing begins."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    mark = node.end_mark
    return int(mark.line + (mark.column > 0))


def _cut_toml(text: str) -> Piece:
    """Tables, and keys in them. A line that begins neither belongs to what is before it, a comment to what is below it."""
    root = here = Piece("")
    last, above = root, ""
    count: dict[str, int] = {}
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        table, key = _TABLE.match(line), _KEY.match(line)
        if table:
            name = table[1]
            count[name] = count.get(name, 0) + 1
            here = last = root.add((name, count[name]), Piece(above + line))
        elif key:
            last = here.add(key[1], Piece(above + line))
        elif re.match(r"\s*(#|$)", line):
            above += line
            continue
        else:
            last.head += above + line
        above = ""
    if above:
        root.add(None, Piece(above))
    return root
