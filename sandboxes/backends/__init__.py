"""Backends without a sandbox: where an agent's files can live when nothing has to be run.

Importing this package is cheap: each name is loaded from its module when it is first used, so that a process that never
keeps files in agent state does not load langgraph.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sandboxes.backends.composite import CompositeBackend
    from sandboxes.backends.deepagents import for_deepagents, from_deepagents
    from sandboxes.backends.filesystem import FilesystemBackend
    from sandboxes.backends.keyvalue import KeyValueBackend
    from sandboxes.backends.legacy import (
        Backend,
        BackendContext,
        BackendFactory,
        BackendProtocolV1,
        SandboxBackendProtocolV1,
        adapt_backend_protocol,
        adapt_sandbox_protocol,
    )
    from sandboxes.backends.local_shell import LocalShellBackend
    from sandboxes.backends.policy import Operation, PolicyBackend, PolicyRefused
    from sandboxes.backends.state import StateBackend
    from sandboxes.backends.store import StoreBackend

__all__ = [
    "Backend",
    "BackendContext",
    "BackendFactory",
    "BackendProtocolV1",
    "CompositeBackend",
    "FilesystemBackend",
    "KeyValueBackend",
    "LocalShellBackend",
    "Operation",
    "PolicyBackend",
    "PolicyRefused",
    "SandboxBackendProtocolV1",
    "StateBackend",
    "StoreBackend",
    "adapt_backend_protocol",
    "adapt_sandbox_protocol",
    "for_deepagents",
    "from_deepagents",
]

_MODULES: Final = {
    "Backend": "legacy",
    "BackendContext": "legacy",
    "BackendFactory": "legacy",
    "BackendProtocolV1": "legacy",
    "CompositeBackend": "composite",
    "FilesystemBackend": "filesystem",
    "KeyValueBackend": "keyvalue",
    "LocalShellBackend": "local_shell",
    "Operation": "policy",
    "PolicyBackend": "policy",
    "PolicyRefused": "policy",
    "SandboxBackendProtocolV1": "legacy",
    "StateBackend": "state",
    "StoreBackend": "store",
    "adapt_backend_protocol": "legacy",
    "adapt_sandbox_protocol": "legacy",
    "for_deepagents": "deepagents",
    "from_deepagents": "deepagents",
}


def __getattr__(name: str) -> object:
    """Load a public name from its module, once."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
