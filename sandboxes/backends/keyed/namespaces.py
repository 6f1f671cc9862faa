"""Whose files a `StoreBackend` sees: namespaces, and the factories that find them for the run that is going on.

A namespace separates users, so it is never guessed and never repaired: whatever is not one is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from langgraph.config import get_config
from langgraph.runtime import Runtime, get_runtime

from sandboxes.backends.legacy import BackendContext

NamespaceFactory = Callable[[Any], "tuple[str, ...] | list[str] | str"]
"""Gets the langgraph `Runtime` of the run (`context`, `server_info`, `execution_info`) and gives the namespace."""
Namespace = NamespaceFactory | tuple[str, ...] | list[str] | str
"""A namespace, or the factory of one. A string is a namespace of one component."""

_COMPONENT: Final = re.compile(r"[A-Za-z0-9\-_.@+:~]+")
_RESERVED: Final = "langgraph"
_SUFFIX: Final = "filesystem"


def resolve(namespace: Namespace | None, runtime: Any = None) -> tuple[str, ...]:
    """The namespace of the run in which this is called, or of `runtime`. None is the legacy default, by assistant.

    Raises `ValueError` when the factory cannot tell it, or for a component that is not allowed.
    """
    if namespace is None:
        return checked(_by_assistant(runtime))
    if not callable(namespace):
        return checked(namespace)
    known = runtime if runtime is not None else _runtime_of_run()
    context = BackendContext(known if known is not None else Runtime(), getattr(known, "state", None))
    try:
        return checked(namespace(context))
    except AttributeError as exc:
        where = "there is no run here" if known is None else "this run does not have it"
        raise ValueError(
            f"the namespace factory asked for what is not known ({exc}): {where}. `server_info` comes from a LangGraph server, "
            "`context` from the caller of the graph"
        ) from exc


def checked(namespace: object) -> tuple[str, ...]:
    """A namespace as a tuple of components. Raises `ValueError` for one that is empty, or that could mean more than itself."""
    parts = (namespace,) if isinstance(namespace, str) else namespace
    if not isinstance(parts, tuple | list) or not parts:
        raise ValueError(f"a namespace is a tuple of strings, at least one: this is {namespace!r:.80}")
    for index, part in enumerate(parts):
        if not isinstance(part, str) or not _COMPONENT.fullmatch(part):
            raise ValueError(
                f"component {index} of the namespace is {part!r:.80}: it has to be a string of letters, digits and any of "
                "-_.@+:~, with no wildcards, and not empty (a thread's id is known with a checkpointer only)"
            )
    if parts[0] == _RESERVED:
        raise ValueError(f"a namespace must not begin with {_RESERVED!r}, which stores keep for themselves")
    return tuple(parts)


def key_of(namespace: tuple[str, ...]) -> tuple[str, ...]:
    """The namespace as stores take it. They join components by dots, so a dot inside of one becomes `=2E`."""
    return tuple(part.replace(".", "=2E") for part in namespace)


def _runtime_of_run() -> Runtime[Any] | None:
    try:
        return get_runtime()
    except (RuntimeError, KeyError):
        return None


def _by_assistant(runtime: Any) -> tuple[str, ...]:
    config = getattr(runtime, "config", None)
    if config is None:
        try:
            config = get_config()
        except RuntimeError:
            config = {}
    assistant = (config.get("metadata") or {}).get("assistant_id")
    return (assistant, _SUFFIX) if assistant else (_SUFFIX,)
