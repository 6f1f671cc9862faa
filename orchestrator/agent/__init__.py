"""The agent: a model in a loop with tools that act in a sandbox. The only package that imports langchain.

    from orchestrator.agent import create_deep_agent

What is exported here is loaded when it is first used: importing langchain takes a second or two.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.agent.harness import (
        CompiledSubAgent,
        FilesystemMiddleware,
        FilesystemPermission,
        MemoryMiddleware,
        PatchToolCallsMiddleware,
        PermissionsRefused,
        SkillsMiddleware,
        SubAgent,
        SubAgentMiddleware,
        SummarizationMiddleware,
        create_deep_agent,
        mounts_for,
    )

__all__ = [
    "CompiledSubAgent",
    "FilesystemMiddleware",
    "FilesystemPermission",
    "MemoryMiddleware",
    "PatchToolCallsMiddleware",
    "PermissionsRefused",
    "SkillsMiddleware",
    "SubAgent",
    "SubAgentMiddleware",
    "SummarizationMiddleware",
    "create_deep_agent",
    "mounts_for",
]


def __getattr__(name: str) -> object:
    """Load a public name of the harness, once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module("orchestrator.agent.harness"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
