"""The middleware that gives an agent its files: the tools, what they may touch, and where too long results go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command

from orchestrator.agent.harness import eviction
from orchestrator.agent.harness.asking import check_checkpointer
from orchestrator.agent.harness.backend import (
    BackendLike,
    accepted,
    artifacts_root,
    can_delete,
    can_execute,
    hook_runtime,
    resolve_backend,
    take_pending,
)
from orchestrator.agent.harness.enforcement import check_enforced
from orchestrator.agent.harness.prompts import with_prompt
from orchestrator.agent.harness.tools import Binding, file_tools
from orchestrator.agent.middleware import PASS_THROUGH, failed, nested_scope
from orchestrator.permissions import FilesystemPermission, Rules
from sandboxes.backends.layered.steps import arun, run
from sandboxes.backends.state import merge_files
from sandboxes.protocol import BackendProtocol, FileData

FILES_PROMPT = """\
## Files

You have files, below `/` unless you are told otherwise: list them with ls and glob, search them with grep, read them with
read_file, and change them with edit_file, write_file and delete. Look before you change anything. A result that is too long
for the conversation is put into a file, which you can read in windows or search.
"""
EXECUTE_PROMPT = """
Commands run with execute, in the place where the files are.
"""


def files_prompt(backend: BackendProtocol) -> str:
    """What an agent is told of files in this backend."""
    return FILES_PROMPT + (EXECUTE_PROMPT if can_execute(backend) else "")


class FilesystemState(AgentState[Any]):
    """The agent's state, with the files of a `StateBackend`."""

    files: Annotated[NotRequired[dict[str, FileData]], merge_files]


class FilesystemMiddleware(AgentMiddleware[FilesystemState, Any, Any]):
    """Gives the tools `ls read_file write_file edit_file delete glob grep execute`, acting on `backend`.

    - `backend`: a backend, or a factory of one (deprecated); None is a `StateBackend`, whose files are in the agent's state.
    - `system_prompt`: in place of the built-in one; empty for none.
    - `custom_tool_descriptions`: by the tool's name, in place of the built-in ones.
    - `tool_token_limit_before_evict`: tokens (four characters each) beyond which a result goes to a file; None: never.
    - `human_message_token_limit_before_evict`: the same for what a human writes.
    - `permissions`: what the tools may read and write. They hold for commands only by the mounts of a sandbox: a backend that
      runs commands and cannot enforce them is refused with `PermissionsRefused`.

    Tools that the backend has not are hidden from the model. A tool's exception becomes an error message, except for those
    that mean that the sandbox or Fanfold itself has failed. Raises `ValueError` for what is not a permission.
    """

    state_schema = FilesystemState

    def __init__(
        self,
        *,
        backend: BackendLike | None = None,
        system_prompt: str | None = None,
        custom_tool_descriptions: Mapping[str, str] | None = None,
        tool_token_limit_before_evict: int | None = eviction.TOKEN_LIMIT,
        human_message_token_limit_before_evict: int | None = eviction.HUMAN_TOKEN_LIMIT,
        permissions: Sequence[FilesystemPermission] | None = None,
    ) -> None:
        super().__init__()
        self._given = accepted(backend)
        self._fixed = self._given if isinstance(self._given, BackendProtocol) else None
        self._rules = Rules.of(permissions)
        if self._fixed is not None:
            check_enforced(self._rules, self._fixed)
        self._prompt = system_prompt
        self._result_limit = tool_token_limit_before_evict
        self._human_limit = human_message_token_limit_before_evict
        self.tools: list[BaseTool] = file_tools(Binding(self._backend, self._rules), custom_tool_descriptions)

    def _backend(self, runtime: Any) -> BackendProtocol:
        """The backend of one call."""
        if self._fixed is not None:
            return self._fixed
        backend = resolve_backend(self._given, runtime)
        check_enforced(self._rules, backend)
        return backend

    # -- before the agent: files that wait, messages that are too long

    def before_agent(self, state: FilesystemState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Bring files into the state that were written before the graph ran, and put messages that are too long to files."""
        check_checkpointer(self._rules)
        backend = self._backend(hook_runtime(state, runtime))
        return _update(take_pending(backend), run(self._long_messages(state, backend)))

    async def abefore_agent(self, state: FilesystemState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Async form of `before_agent`."""
        check_checkpointer(self._rules)
        backend = self._backend(hook_runtime(state, runtime))
        return _update(take_pending(backend), await arun(self._long_messages(state, backend)))

    def _long_messages(self, state: FilesystemState, backend: BackendProtocol) -> eviction.Shortened:
        if self._human_limit is None:
            return eviction.evict_messages([], self._store(backend), 0)
        return eviction.evict_messages(state["messages"], self._store(backend), self._human_limit)

    def _store(self, backend: BackendProtocol) -> eviction.Store:
        return eviction.Store(backend, artifacts_root(backend))

    # -- around the model: the prompt, and the tools that there are

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Show the model the tools that the backend has, and how to work with files."""
        return handler(self._shown(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Async form of `wrap_model_call`."""
        return await handler(self._shown(request))

    def _shown(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        backend = self._fixed or self._backend(hook_runtime(request.state, request.runtime))
        missing = {name for name, there in (("delete", can_delete(backend)), ("execute", can_execute(backend))) if not there}
        hidden = [tool for tool in self.tools if tool.name in missing]
        if hidden:
            tools = [tool for tool in request.tools if not any(tool is one for one in hidden)]
            request = request.override(tools=tools)
        prompt = self._prompt if self._prompt is not None else files_prompt(backend)
        return with_prompt(request, prompt) if prompt else request

    # -- around the tools: errors, ids, results that are too long

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run a tool; its exception becomes an error message, and a result that is too long a reference to a file."""
        with nested_scope(request):
            try:
                result = handler(request)
            except PASS_THROUGH:
                raise
            except Exception as exc:
                return failed(request, exc)
            if not self._is_evictable(request, result):
                return result
            backend = self._backend(request.runtime)
            return run(eviction.evict_result(result, self._store(backend), self._result_limit or 0))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Async form of `wrap_tool_call`."""
        with nested_scope(request):
            try:
                result = await handler(request)
            except PASS_THROUGH:
                raise
            except Exception as exc:
                return failed(request, exc)
            if not self._is_evictable(request, result):
                return result
            backend = self._backend(request.runtime)
            return await arun(eviction.evict_result(result, self._store(backend), self._result_limit or 0))

    def _is_evictable(self, request: ToolCallRequest, result: ToolMessage | Command[Any]) -> bool:
        limit = self._result_limit
        if limit is None or request.tool_call["name"] in eviction.PAGING:
            return False
        return isinstance(result, Command) or eviction.is_large(result, limit)


def _update(files: Mapping[str, FileData | None], messages: Sequence[Any]) -> dict[str, Any] | None:
    update = {key: value for key, value in (("files", files), ("messages", messages)) if value}
    return update or None
