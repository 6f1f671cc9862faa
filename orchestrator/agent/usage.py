"""Counting what models are asked and answer, whoever asks: the agent, its subagents, and what sums up a long conversation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

Spent = Callable[[str, str, Mapping[str, Any]], None]
"""Takes the agent's name (empty: the run's own agent), the model as `provider:name`, and the tokens of one call as JSON."""


class UsageHandler(BaseCallbackHandler):
    """Tells `spent` of every call of a model that has ended. One answer that passes through two models counts once."""

    def __init__(self, spent: Spent) -> None:
        self._spent = spent
        self._lock = threading.Lock()
        self._open: dict[UUID, tuple[str, str]] = {}
        self._counted: set[str] = set()

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note who asks which model."""
        told = metadata or {}
        names = [told.get("ls_provider"), told.get("ls_model_name")]
        with self._lock:
            self._open[run_id] = (str(told.get("lc_agent_name") or ""), ":".join(str(name) for name in names if name))

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A call that failed has no usage that we know of."""
        with self._lock:
            self._open.pop(run_id, None)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Tell what the call has used."""
        with self._lock:
            agent, model = self._open.pop(run_id, ("", ""))
            for message in answers(response):
                if not message.id or message.id not in self._counted:
                    self._counted.update([message.id] if message.id else [])
                    self._spent(agent, model, dict(message.usage_metadata or {}))


def answers(response: LLMResult) -> Iterator[AIMessage]:
    """What the model has answered: the first choice of each of its prompts, where it is a chat model's."""
    for generation in [part for parts in response.generations for part in parts[:1]]:
        if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
            yield generation.message
