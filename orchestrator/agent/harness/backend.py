"""From what a user gives as `backend=` to the backend of one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolRuntime
from langgraph.runtime import Runtime

from sandboxes.protocol import BackendProtocol, FileData, SandboxBackendProtocol
from sandboxes.sandbox import Sandbox

BackendLike = BackendProtocol | Callable[[Any], Any] | object
"""A backend, a backend of the first protocol, a backend of the released `deepagents` package, or a factory of one."""

FACTORY_WARNING = "a backend factory is deprecated: pass the backend itself, such as backend=StateBackend()"
SANDBOX_ARTIFACTS = "/tmp/fanfold"  # noqa: S108
"""Where the harness keeps its own files in a sandbox: outside of the working directory, whose changes are the work."""


class Factory:
    """A factory of backends whose user has been warned."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def __call__(self, runtime: Any) -> Any:
        """The backend for one call."""
        return self._make(runtime)


def accepted(backend: BackendLike | None) -> BackendProtocol | Factory:
    """`backend` in the form that is kept: one backend, or a factory, which the caller's caller is warned about once."""
    if isinstance(backend, Factory):
        return backend
    if not is_factory(backend):
        return fixed_backend(backend)
    warnings.warn(FACTORY_WARNING, DeprecationWarning, stacklevel=3)
    return Factory(backend)  # type: ignore[arg-type]


def resolve_backend(backend: BackendLike | None, runtime: Any) -> BackendProtocol:
    """The backend that `backend` stands for; None is a `StateBackend`.

    A factory (deprecated: it warns, unless `accepted` did) is called with `runtime`, whose `state` is that of the graph. Raises
    `TypeError` when it is none of `BackendLike`.
    """
    if isinstance(backend, BackendProtocol):
        return backend
    if isinstance(backend, Factory):
        return fixed_backend(backend(runtime))
    if is_factory(backend):
        warnings.warn(FACTORY_WARNING, DeprecationWarning, stacklevel=2)
        return fixed_backend(backend(runtime))  # type: ignore[operator]
    return fixed_backend(backend)


def is_factory(backend: BackendLike | None) -> bool:
    """Whether this makes a backend for each call, rather than being one."""
    return callable(backend) and not hasattr(backend, "write")


def fixed_backend(backend: object | None) -> BackendProtocol:
    """`resolve_backend` for what is no factory. The same object is adapted anew each time: call it once."""
    if isinstance(backend, BackendProtocol):
        return backend
    if backend is None:
        from sandboxes.backends.state import StateBackend

        return StateBackend()
    from sandboxes.backends.deepagents import from_deepagents, is_deepagents

    if is_deepagents(backend):
        return from_deepagents(backend)
    if not hasattr(backend, "write"):
        raise TypeError(f"{type(backend).__name__} is not a backend: it has no `write`")
    from sandboxes.backends.legacy import adapt_backend_protocol, adapt_sandbox_protocol

    return adapt_sandbox_protocol(backend) if hasattr(backend, "execute") else adapt_backend_protocol(backend)


def hook_runtime(state: Any, runtime: Runtime[Any] | None) -> ToolRuntime[Any, Any]:
    """For a middleware's hook what a tool is given: a factory reads the state and the store from it."""
    return ToolRuntime(
        state=state,
        context=getattr(runtime, "context", None),
        config=get_config(),
        stream_writer=getattr(runtime, "stream_writer", lambda _: None),
        tool_call_id=None,
        store=getattr(runtime, "store", None),
    )


def can_delete(backend: BackendProtocol) -> bool:
    """Whether the backend has a `delete` of its own."""
    kind = type(backend)
    return kind.delete is not BackendProtocol.delete or kind.adelete is not BackendProtocol.adelete


def can_execute(backend: BackendProtocol) -> bool:
    """Whether the backend runs commands."""
    return isinstance(backend, SandboxBackendProtocol)


def working_directory(backend: BackendProtocol) -> str:
    """Where the relative paths of this backend begin."""
    found = getattr(backend, "workdir", None)
    if found is None and getattr(backend, "virtual_mode", True) is False:
        found = str(getattr(backend, "root_dir", "/"))
    return found if isinstance(found, str) and found.startswith("/") else "/"


def parts(backend: BackendProtocol) -> Iterator[BackendProtocol]:
    """The backend, and those that it consists of."""
    yield backend
    routes = getattr(backend, "routes", None)
    inside = [getattr(backend, "default", None), getattr(backend, "inner", None)]
    inside += list(routes.values()) if isinstance(routes, Mapping) else []
    for part in inside:
        if isinstance(part, BackendProtocol):
            yield from parts(part)


def artifacts_root(backend: BackendProtocol) -> str:
    """The folder below which the harness keeps its own files, without a slash at its end: "" is the root.

    A backend says it by its `artifacts_root`; a sandbox that does not gets `SANDBOX_ARTIFACTS`.
    """
    declared = getattr(backend, "artifacts_root", "/")
    if isinstance(declared, str) and declared.strip("/"):
        return declared.rstrip("/")
    if isinstance(backend, Sandbox):
        return SANDBOX_ARTIFACTS
    routes = getattr(backend, "routes", None)
    inner = getattr(backend, "default", None) or getattr(backend, "inner", None)
    if isinstance(inner, BackendProtocol) and not any("/large_tool_results/".startswith(route) for route in routes or ()):
        return artifacts_root(inner)
    return ""


def take_pending(backend: BackendProtocol) -> dict[str, FileData | None]:
    """What was written to the `StateBackend`s in `backend` before the graph ran; it is theirs no longer."""
    files: dict[str, FileData | None] = {}
    for part in parts(backend):
        take = getattr(part, "take_pending", None)
        if callable(take):
            files.update(take())
    return files
