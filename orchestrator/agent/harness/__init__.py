"""The harness of a deep agent: the middleware around langchain's agent, and `create_deep_agent`, which puts it together."""

from __future__ import annotations

from orchestrator.agent.harness.backend import BackendLike, resolve_backend
from orchestrator.agent.harness.deep import create_deep_agent
from orchestrator.agent.harness.filesystem import FilesystemMiddleware, FilesystemState
from orchestrator.agent.harness.memory import MemoryMiddleware
from orchestrator.agent.harness.repair import PatchToolCallsMiddleware
from orchestrator.agent.harness.skills import SkillsMiddleware
from orchestrator.agent.harness.subagents import CompiledSubAgent, SubAgent, SubAgentMiddleware
from orchestrator.agent.harness.summarization import SummarizationMiddleware, summarization
from orchestrator.mounts import PermissionsRefused, mounts_for
from orchestrator.permissions import FilesystemPermission

__all__ = [
    "BackendLike",
    "CompiledSubAgent",
    "FilesystemMiddleware",
    "FilesystemPermission",
    "FilesystemState",
    "MemoryMiddleware",
    "PatchToolCallsMiddleware",
    "PermissionsRefused",
    "SkillsMiddleware",
    "SubAgent",
    "SubAgentMiddleware",
    "SummarizationMiddleware",
    "create_deep_agent",
    "mounts_for",
    "resolve_backend",
    "summarization",
]
