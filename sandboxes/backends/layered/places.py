"""Places: folders that a route or a rule is about. What lies in one, and how paths and messages name it from outside.

A place is a normalized absolute path without a closing `/`; the root is the empty string.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator
from typing import TypeVar, cast

from sandboxes import protocol as p
from sandboxes.toolbox.helper import text

B = TypeVar("B", bound=p.BackendProtocol)


def place(path: str, what: str) -> str:
    """The place that a programmer names by `path`; a closing `/` makes no difference. Raises `ValueError`, naming `what`."""
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise ValueError(f"{what} {path!r} must be an absolute path without '..', such as '/memories/'")
    return _joined(path)


def _joined(path: str) -> str:
    return "".join("/" + part for part in path.split("/") if part not in ("", "."))


def within(path: str, where: str) -> bool:
    """Whether `path` is the place or lies below it. `/memoriesX` is not within `/memories`."""
    return path == where or path.startswith(where + "/")


def plain(path: str) -> str:
    """The path that a listing or a search tells of, normalized: a folder's without its closing `/`."""
    return posixpath.normpath("/" + path.lstrip("/"))


def workdir_of(backend: p.BackendProtocol) -> str | None:
    """Where a backend's relative paths begin; None when a sandbox does not tell."""
    found = getattr(backend, "workdir", None)
    if isinstance(found, str):
        return found
    return None if isinstance(backend, p.SandboxBackendProtocol) else "/"


def resolved(path: str, workdir: str | None) -> str:
    """`path` absolute and normalized. Raises `text.Refused`; a relative one is refused where nobody knows where it begins."""
    absolute: str = text.absolute(path, workdir or "/")
    if workdir is None and not path.startswith("/"):
        raise text.Refused(p.INVALID_PATH, f"Error: Path '{path}' is relative: give an absolute path")
    return absolute


def renamed(message: str, inner: str, outer: str) -> str:
    """What a backend said about `inner`, said about `outer`: the same file, as the caller knows it."""
    if inner == outer:
        return message
    if inner == "/":
        return message.replace("'/'", f"'{outer}'")
    return re.sub(rf"(?<![^\s'\"`(]){re.escape(inner)}(?=$|[\s'\"`),:;]|\.(?:\s|$))", lambda _: outer, message)


def patterns_below(pattern: str, folders: str) -> Iterator[str]:
    """Glob patterns that match below the relative path `folders` what `pattern` matches from here. None: nothing can.

    One for each way in which the folders can use up the beginning of the pattern. Raises `text.Refused` for a bad pattern.
    """
    text.glob_matcher(pattern)
    anchored = pattern if "/" in pattern else "**/" + pattern
    seen = set()
    for alternative in text.alternatives(anchored.lstrip("/")):
        parts = [part for part in alternative.split("/") if part not in ("", ".")]
        for used in _used_up(parts, folders.split("/")):
            seen.add(_rest(parts[used:]))
    yield from sorted(seen)


def _rest(parts: list[str]) -> str:
    if len(parts) == 1:
        return "/" + parts[0]
    return parts[1] if len(parts) == 2 and parts[0] == "**" else "/".join(parts)


def _used_up(parts: list[str], folders: list[str]) -> set[int]:
    """How many parts of a pattern the names `folders` may have used up, so that at least one part is left."""
    states = {0} if parts else set()
    for name in folders:
        following = set()
        for state in _skipping(parts, states):
            if parts[state] != "**":
                following |= {state + 1} if text.glob_matcher(parts[state])(name) else set()
            elif not name.startswith("."):
                following.add(state)
        states = {state for state in following if state < len(parts)}
    return states


def _skipping(parts: list[str], states: set[int]) -> set[int]:
    """`states`, and those that are reached when a `**` stands for no folder."""
    todo, done = list(states), set()
    while todo:
        state = todo.pop()
        done.add(state)
        if parts[state] == "**" and state + 1 < len(parts):
            todo.append(state + 1)
    return done


@functools.cache
def with_commands(kind: type[B], commands: type[p.SandboxBackendProtocol]) -> type[B]:
    """`kind`, a wrapper's class, as a sandbox's: its instances are `SandboxBackendProtocol`s, by the methods of `commands`."""
    return cast("type[B]", type(kind.__name__, (kind, commands), {"__module__": kind.__module__, "__doc__": kind.__doc__}))
