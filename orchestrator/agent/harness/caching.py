"""Prompt caching for Anthropic's models, by the middleware of langchain-anthropic."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse

_PACKAGE = "langchain_anthropic"


def prompt_caching() -> list[AgentMiddleware[Any, Any, Any]]:
    """Middleware that has Anthropic's models cache the system prompt, the tools and the conversation so far.

    It leaves every other model's requests as they are. Nothing comes without langchain-anthropic. It belongs at the end of
    the list, so that it sees the system prompt as all others have left it.
    """
    return [PromptCaching()] if find_spec(_PACKAGE) else []


class PromptCaching(AgentMiddleware[AgentState[Any], Any, Any]):
    """See `prompt_caching`. The package is loaded by its model only: it takes a second, which others need not wait."""

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        """Mark what can be cached, and ask the model."""
        return self._anthropic.wrap_model_call(request, handler) if _PACKAGE in sys.modules else handler(request)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        """Async form of `wrap_model_call`."""
        if _PACKAGE not in sys.modules:
            return await handler(request)
        return await self._anthropic.awrap_model_call(request, handler)

    @cached_property
    def _anthropic(self) -> AgentMiddleware[Any, Any, Any]:
        from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware

        return AnthropicPromptCachingMiddleware(unsupported_model_behavior="ignore")
