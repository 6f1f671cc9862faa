"""What of its state an agent gives to a subagent, and what of the subagent's comes back.

A key with a reducer comes back as the change that the subagent made: several tasks of one answer each return a copy of what
they were given, and a copy that nobody touched must not undo what a sibling did. A key without a reducer can be written by one
task only: it comes back when the task was the answer's only call, and stays out otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from langchain_core.messages import HumanMessage

OWN = frozenset({"messages", "todos", "structured_response", "jump_to"})
"""Keys that belong to one agent's conversation."""

Reducer = Callable[[Any, Any], Any]


def handed_down(state: Mapping[str, Any], description: str, private: frozenset[str]) -> dict[str, Any]:
    """The state that a subagent starts with: the parent's without what is the parent's own, and the task."""
    shared = {key: value for key, value in state.items() if not _kept(key, private)}
    return {**shared, "messages": [HumanMessage(description)]}


def handed_back(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    channels: Mapping[str, Any],
    private: frozenset[str],
    complete: frozenset[str],
    alone: bool,
) -> dict[str, Any]:
    """The update of the parent's state for a subagent that began with `before` and ended with `after`.

    `channels` are those of the parent's graph. `complete` are the keys that `after` holds whole, so that an entry that is
    missing there was deleted. `alone` tells that no other call of the same answer can write.
    """
    update: dict[str, Any] = {}
    for key, value in after.items():
        if key not in channels or _kept(key, private) or (key in before and _same(before[key], value)):
            continue
        reducer = getattr(channels[key], "operator", None)
        if reducer is not None:
            update[key] = _change(before.get(key), value, reducer, key in complete)
        elif alone or hasattr(channels[key], "reducer"):
            update[key] = value
    return update


def _kept(key: str, private: frozenset[str]) -> bool:
    return key in OWN or key in private or key.startswith("_")


def _same(one: Any, other: Any) -> bool:
    return one is other or (one == other) is True


def _change(old: Any, new: Any, reducer: Reducer, complete: bool) -> Any:
    """The smallest update that makes `new` of `old` by `reducer`; where none is found, `new` itself."""
    for change in _candidates(old, new, complete):
        try:
            if _same(reducer(old, change), new):
                return change
        except Exception:  # noqa: S112 - a reducer may refuse what it was not made for
            continue
    return new


def _candidates(old: Any, new: Any, complete: bool) -> Iterator[Any]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        gone = dict.fromkeys(old.keys() - new.keys()) if complete else {}
        yield {key: value for key, value in new.items() if key not in old or not _same(old[key], value)} | gone
    elif isinstance(old, list) and isinstance(new, list):
        yield new[len(old) :]
    elif isinstance(old, int | float) and isinstance(new, int | float):
        yield new - old
