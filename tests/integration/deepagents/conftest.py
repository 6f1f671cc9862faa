"""Agents whose model follows a script, and sandboxes for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import deepagents
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from orchestrator.agent import harness
from sandboxes.portal import portal
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.registry import get_provider
from sandboxes.sandbox import Sandbox

Call = tuple[str, dict[str, Any]]
Play = Callable[..., Awaitable[list[ToolMessage]]]

IMAGE = "fanfold-test/base:latest"


class Scripted(BaseChatModel):
    """Makes its calls one after the other, then says that it is done."""

    calls: list[Call]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Scripted:
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        made = sum(isinstance(message, AIMessage) for message in messages)
        answer = AIMessage("done")
        if made < len(self.calls):
            name, args = self.calls[made]
            answer = AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{made}"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])


@pytest.fixture(params=["sync", "async"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def player(create: Callable[..., Any], form: str) -> Play:
    async def play(backend: Any, *calls: Call, **options: Any) -> list[ToolMessage]:
        agent = create(model=Scripted(calls=list(calls)), backend=backend, **options)
        asked = {"messages": [{"role": "user", "content": "Do it."}]}
        state = agent.invoke(asked) if form == "sync" else await agent.ainvoke(asked)
        return [message for message in state["messages"] if isinstance(message, ToolMessage)]

    return play


@pytest.fixture
def theirs(form: str) -> Play:
    """Let an agent of theirs with this backend make these calls: `await theirs(backend, ("ls", {"path": "/"}))`."""
    return player(deepagents.create_deep_agent, form)


@pytest.fixture
def ours(form: str) -> Play:
    """Let an agent of ours with this backend make these calls."""
    return player(harness.create_deep_agent, form)


def attached(provider: str, home: Path) -> Iterator[Sandbox]:
    """A sandbox for sync and async agents alike: its connection lives on a loop of its own."""
    maker = get_provider(provider, home=home)
    handle = portal.run(maker.create(SandboxSpec(image=IMAGE if provider == "docker" else None)))
    try:
        sandbox = portal.run(maker.attach(handle))
        yield sandbox
        portal.run(sandbox.aclose())
    finally:
        portal.run(maker.destroy(handle))
        portal.run(maker.aclose())


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    yield from attached(request.param, tmp_path / "home")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Sandbox]:
    yield from attached("local", tmp_path / "home")
