"""`python -m benchmarks.harness`: what the agent itself costs for each tool call, beside the released deepagents' agent."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from benchmarks.measure import Call, Config, Row, compare, need, run

ROUNDS = 15
EACH = 2
"""Conversations of each side in a turn."""
TARGET = 1.43
"""The peer's time over ours: we may take 0.7 of it. Calls at once have no target: most of their time is langgraph's."""
STEPS = 1000
FILE = "/notes/plan.md"
TEXT = "".join(f"{number}. step with a NEEDLE\n" for number in range(1, 41))
PARALLEL = 8

_WRITE = ("write_file", {"file_path": FILE, "content": TEXT})
_READ = ("read_file", {"file_path": FILE, "limit": 30})
_DELETE = ("delete", {"file_path": FILE})


def _work(step: int) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("ls", {"path": "/notes"}),
        _READ,
        ("grep", {"pattern": "NEEDLE", "path": "/", "output_mode": "content"}),
        ("edit_file", {"file_path": FILE, "old_string": f"\n{step}. step", "new_string": f"\n{step}. stride"}),
        ("glob", {"pattern": "*.md", "path": "/"}),
        _READ,
    ]


ONE_BY_ONE = [[_WRITE], *([call] for step in (2, 3, 4) for call in _work(step)), [_DELETE]]
"""A conversation: the calls of each answer. It leaves the files as they were. 20 calls."""
ALL_AT_ONCE = [[_WRITE], *([_READ] * PARALLEL for _ in range(3)), [_DELETE]]


class Reciter(BaseChatModel):
    """Makes the calls of a conversation, answer by answer, and then says that it is done. It takes next to no time."""

    answers: list[list[tuple[str, dict[str, Any]]]]

    @property
    def _llm_type(self) -> str:
        return "reciter"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        given = sum(isinstance(message, AIMessage) for message in messages)
        calls = [
            ToolCall(name=name, args=args, id=f"call_{given}_{number}", type="tool_call")
            for number, (name, args) in enumerate(self.answers[given] if given < len(self.answers) else [])
        ]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "done", tool_calls=calls))])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        return self._generate(messages)


async def bench(config: Config) -> list[Row]:
    """Each conversation, with the files in the state and on the disk, sync and async."""
    need("deepagents", "deepagents")
    rows = []
    for what, backends in (("state", _states), ("disk", _disks)):
        for how, answers, target in (("one by one", ONE_BY_ONE, TARGET), (f"{PARALLEL} at once", ALL_AT_ONCE, None)):
            with backends() as (our_backend, peer_backend):
                ours, peer = _agents(Reciter(answers=answers), our_backend, peer_backend)
                for form, call in (("sync", _sync), ("async", _async)):
                    calls = sum(map(len, answers))
                    times = await _times(config, call(ours), call(peer), calls)
                    rows.append(Row(f"{how}, {what}, {form}", "ms", *times, at_least=target))
    return rows


def _agents(model: Reciter, our_backend: Any, peer_backend: Any) -> tuple[Any, Any]:
    import deepagents

    from orchestrator.agent import create_deep_agent

    return create_deep_agent(model, backend=our_backend), deepagents.create_deep_agent(model, backend=peer_backend)


@contextmanager
def _states() -> Iterator[tuple[Any, Any]]:
    from deepagents import backends as theirs

    from sandboxes import backends as ours

    yield ours.StateBackend(), theirs.StateBackend()


@contextmanager
def _disks() -> Iterator[tuple[Any, Any]]:
    from deepagents import backends as theirs

    from sandboxes import backends as ours

    with tempfile.TemporaryDirectory(prefix="ff-bench-") as one, tempfile.TemporaryDirectory(prefix="ff-bench-") as other:
        yield ours.FilesystemBackend(one, virtual_mode=True), theirs.FilesystemBackend(other, virtual_mode=True)


async def _times(config: Config, ours: Call, peer: Call, calls: int) -> tuple[float, float]:
    """Milliseconds for each call of a tool, of both."""
    our_time, peer_time = await compare(ours, peer, rounds=config.rounds(ROUNDS), ours_each=EACH, peer_each=EACH)
    return our_time / calls, peer_time / calls


def _sync(agent: Any) -> Callable[[], None]:
    return lambda: _check(agent.invoke(_begin(), {"recursion_limit": STEPS}))


def _async(agent: Any) -> Call:
    async def converse() -> None:
        _check(await agent.ainvoke(_begin(), {"recursion_limit": STEPS}))

    return converse


def _begin() -> dict[str, Any]:
    return {"messages": [("user", "Keep a plan.")]}


def _check(state: dict[str, Any]) -> None:
    """Raise when a tool of the conversation failed."""
    results = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    failed = [message for message in results if message.status == "error" or str(message.text).startswith("Error")]
    if failed or not results:
        raise RuntimeError(f"a measured call failed: {failed[:1]}")


BENCH = {"agent: ours / deepagents, for each tool call": bench}

if __name__ == "__main__":
    run(BENCH)
