"""The file tools and `execute` as langchain's tools: checked arguments in, text or content blocks out.

They are bound to no backend: which one a call acts on is found when it is made, from its runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException
from langgraph.types import Command
from pydantic import ValidationError

from orchestrator.agent.harness import arguments, operations
from orchestrator.agent.harness.asking import Answered, Edited, Question
from orchestrator.agent.harness.backend import working_directory
from orchestrator.agent.harness.multimodal import Blocks
from orchestrator.agent.harness.operations import Changed, Operation, Output
from orchestrator.agent.harness.permissions import Ask, Guard
from orchestrator.agent.render import clean
from orchestrator.permissions import FileOperation, FilesystemPermission, Rules
from sandboxes.backends.layered.steps import Steps, arun, run
from sandboxes.protocol import BackendProtocol
from sandboxes.toolbox.helper import text

Runtime = Annotated[Any, InjectedToolArg]
"""langgraph's `ToolRuntime`; None when a tool is called outside of a graph."""

_UNREGISTERED_BLOCKS = ("audio", "video")
"""Content blocks that langchain would turn into JSON text, were they a tool's plain result."""


@dataclass(frozen=True)
class Tool:
    """What a tool is called, takes, tells and does."""

    name: str
    arguments: type[arguments.Arguments]
    operation: Operation
    description: str
    changes: bool = False
    """Whether it changes the file `file_path`."""


TOOLS = (
    Tool(
        "ls", arguments.Ls, operations.ls, "List a directory: size in bytes, time of the last change, path. "
        "Directories end with /.",
    ),
    Tool(
        "read_file",
        arguments.ReadFile,
        operations.read_file,
        "Read a file. Each line of a text comes with its number and a tab, which are not part of the file. "
        "A long file comes in windows: the last line says how to read on. "
        "Images, audio, video and documents (PDF, PowerPoint) are shown as what they are.",
    ),
    Tool(
        "write_file",
        arguments.WriteFile,
        operations.write_file,
        "Create a new text file. A file that exists is left alone: edit_file changes it.",
        changes=True,
    ),
    Tool(
        "edit_file",
        arguments.EditFile,
        operations.edit_file,
        "Replace an exact piece of text in a file. Read the file first.",
        changes=True,
    ),
    Tool("delete", arguments.Delete, operations.delete, "Delete a file, or a directory with all that is in it.", changes=True),
    Tool("glob", arguments.Glob, operations.glob, "Find files by a pattern for their names."),
    Tool(
        "grep",
        arguments.Grep,
        operations.grep,
        "Find text in files. It is searched literally: write foo( and not foo\\(.",
    ),
    Tool(
        "execute",
        arguments.Execute,
        operations.execute,
        "Run a shell command in the working directory: tests, builds, git. It has no terminal and no input. "
        "Its output (stdout and stderr) and its exit code come back when it has ended.",
    ),
)  # fmt: skip
TOOL_NAMES = tuple(tool.name for tool in TOOLS)


@dataclass(frozen=True)
class Binding:
    """How calls of the tools find what they act on."""

    backend: Callable[[Any], BackendProtocol]
    """The backend of a call, from its runtime."""
    rules: Rules = field(default_factory=Rules)


def file_tools(binding: Binding, descriptions: Mapping[str, str] | None = None) -> list[BaseTool]:
    """All tools. `descriptions` replace ours, by name; raises `ValueError` for the name of no tool."""
    told = dict(descriptions or {})
    if unknown := sorted(set(told) - set(TOOL_NAMES)):
        raise ValueError(f"there is no file tool {unknown[0]!r} to describe: the tools are {', '.join(TOOL_NAMES)}")
    return [_structured(tool, binding, told.get(tool.name, tool.description)) for tool in TOOLS]


def backend_tools(backend: BackendProtocol) -> list[BaseTool]:
    """All tools, acting on this backend."""
    return file_tools(Binding(lambda _: backend))


def _structured(tool: Tool, binding: Binding, description: str) -> BaseTool:
    def call(runtime: Runtime = None, **given: Any) -> Any:
        backend = binding.backend(runtime)
        return _told(run(_steps(tool, binding.rules, backend, runtime, given)), runtime)

    async def acall(runtime: Runtime = None, **given: Any) -> Any:
        backend = binding.backend(runtime)
        return _told(await arun(_steps(tool, binding.rules, backend, runtime, given)), runtime)

    return StructuredTool(
        name=tool.name,
        description=description,
        args_schema=tool.arguments.schema_for_model(),
        func=call,
        coroutine=acall,
        handle_tool_error=True,
    )


def _steps(
    tool: Tool, rules: Rules, backend: BackendProtocol, runtime: Any, given: dict[str, Any], ask: Ask | None = None
) -> Steps[Output]:
    """The work of one call. Raises `ToolException` for arguments that are not valid."""
    try:
        checked = tool.arguments.model_validate(given)
    except ValidationError as exc:
        raise ToolException(arguments.invalid(exc)) from exc
    if tool.changes and runtime is not None:
        _check_alone(getattr(checked, "file_path"), runtime, working_directory(backend))  # noqa: B009
    if not rules:
        return (yield from tool.operation(backend, checked))
    guard = Guard(rules, working_directory(backend), ask or Question(tool.name, given))
    try:
        return (yield from guard.around(tool.operation(backend, checked)))
    except Answered as answer:
        return str(answer)
    except Edited as edited:
        return (yield from _steps(tool, rules, backend, runtime, edited.args_given, ask=_no_question))


def _no_question(rule: FilesystemPermission, operation: FileOperation, path: str) -> None:
    """What a human has written by hand is not asked about again; what is denied stays denied."""


def _check_alone(path: str, runtime: Any, workdir: str) -> None:
    """Refuse a change of a file that an earlier call of the same answer changes: they run at the same time."""
    answer = next((message for message in reversed(runtime.state["messages"]) if isinstance(message, AIMessage)), None)
    if answer is None or len(answer.tool_calls) < 2:
        return
    changing = [tool.name for tool in TOOLS if tool.changes]
    for call in answer.tool_calls:
        if call["id"] == runtime.tool_call_id:
            return
        other = call["args"].get("file_path")
        if call["name"] in changing and isinstance(other, str) and _same(other, path, workdir):
            raise ToolException(
                f"Error: '{path}' is changed by another call of the same answer, and nothing was done: "
                "change a file once in an answer, and again when you have seen the result"
            )


def _same(one: str, other: str, workdir: str) -> bool:
    try:
        return bool(text.absolute(one, workdir) == text.absolute(other, workdir))
    except text.Refused:
        return False


def _told(output: Output, runtime: Any) -> str | Blocks | Command[Any]:
    """What langchain is given for the result of a tool."""
    if isinstance(output, str):
        return clean(output)
    call_id = getattr(runtime, "tool_call_id", None)
    if isinstance(output, Changed):
        message = ToolMessage(clean(output.text), tool_call_id=call_id)
        return Command(update={"files": dict(output.files), "messages": [message]})
    if call_id is not None and any(block["type"] in _UNREGISTERED_BLOCKS for block in output):
        content: list[str | dict[Any, Any]] = [*output]
        return Command(update={"messages": [ToolMessage(content, tool_call_id=call_id)]})
    return output
