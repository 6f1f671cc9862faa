"""The tools of an agent, bound to the backend of its run.

What a model can mend comes back as an error message: a missing file, an edit that does not fit, arguments that are not valid.
What it cannot mend (the sandbox failed) is an exception, and passes through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.agent import render
from sandboxes.protocol import DEFAULT_READ_LIMIT, SandboxBackendProtocol
from sandboxes.sandbox import Sandbox

EXECUTE_TIMEOUT = 300
"""Seconds that a command may take when the model does not say."""
EXECUTE_TIMEOUT_MAX = 24 * 3600
"""Seconds."""
GREP_CAP = 10_000
"""Matches that one search asks for."""

Arguments = dict[str, Any]


class _Arguments(BaseModel):
    """Arguments of a tool. What is not declared is refused, so that a model learns of its slip."""

    model_config = ConfigDict(extra="forbid")


class _Ls(_Arguments):
    path: str = Field(".", description="The directory.")


class _ReadFile(_Arguments):
    file_path: str = Field(description="The file.")
    offset: int = Field(0, ge=0, description="Lines to skip: 0 begins with the first line.")
    limit: int = Field(DEFAULT_READ_LIMIT, ge=1, description="Lines to read.")
    byte_offset: int | None = Field(
        None, ge=0, description="Begin at this byte instead of a line, to read on inside a very long line."
    )


class _WriteFile(_Arguments):
    file_path: str = Field(description="The new file. Missing parent directories are made.")
    content: str = Field(description="The whole text of the file.")


class _EditFile(_Arguments):
    file_path: str = Field(description="The file.")
    old_string: str = Field(description="The exact text to replace, with its indentation, without line numbers.")
    new_string: str = Field(description="The text to put in its place.")
    replace_all: bool = Field(False, description="Replace every occurrence. Otherwise old_string must occur exactly once.")


class _Glob(_Arguments):
    pattern: str = Field(description="Such as *.py (at any depth), src/*.py, docs/**/*.md.")
    path: str = Field(".", description="The directory to search in.")


class _Grep(_Arguments):
    pattern: str = Field(description="The text to find, literally: not a regular expression.")
    path: str = Field(".", description="The file or directory to search in.")
    glob: str | None = Field(None, description="Search only files that match this pattern, such as *.py.")
    output_mode: Literal["files_with_matches", "content", "count"] = Field(
        "files_with_matches", description="Paths of the files, the matching lines with their numbers, or matches per file."
    )


class _Execute(_Arguments):
    command: str = Field(description="The shell command.")
    timeout: int = Field(
        EXECUTE_TIMEOUT, ge=1, le=EXECUTE_TIMEOUT_MAX, description="Seconds after which it is killed with all its processes."
    )


async def _ls(backend: SandboxBackendProtocol, a: Arguments) -> str:
    result = await backend.als(a["path"])
    _check(result.error)
    return render.listing(a["path"], result.entries or [])


async def _read_file(backend: SandboxBackendProtocol, a: Arguments) -> str:
    byte_offset: int | None = a["byte_offset"]
    if byte_offset is None:
        result = await backend.aread(a["file_path"], a["offset"], a["limit"])
    elif isinstance(backend, Sandbox):
        result = await backend.aread(a["file_path"], 0, a["limit"], byte_offset=byte_offset)
    else:
        raise ToolException("Error: these files can only be read by lines: leave byte_offset out")
    _check(result.error)
    return render.file_text(a["file_path"], result, a["offset"], byte_offset)


async def _write_file(backend: SandboxBackendProtocol, a: Arguments) -> str:
    result = await backend.awrite(a["file_path"], a["content"])
    _check(result.error)
    return f"Created {render.shown_path(result.path or a['file_path'])}"


async def _edit_file(backend: SandboxBackendProtocol, a: Arguments) -> str:
    result = await backend.aedit(a["file_path"], a["old_string"], a["new_string"], a["replace_all"])
    _check(result.error)
    times = "1 occurrence" if result.occurrences == 1 else f"{result.occurrences} occurrences"
    return f"Replaced {times} in {render.shown_path(result.path or a['file_path'])}"


async def _glob(backend: SandboxBackendProtocol, a: Arguments) -> str:
    result = await backend.aglob(a["pattern"], a["path"])
    _check(result.error)
    return render.globbed(a["pattern"], result)


async def _grep(backend: SandboxBackendProtocol, a: Arguments) -> str:
    result = await backend.agrep(a["pattern"], a["path"], a["glob"], max_count=GREP_CAP)
    _check(result.error)
    return render.grepped(a["pattern"], result, a["output_mode"])


async def _execute(backend: SandboxBackendProtocol, a: Arguments) -> str:
    response = await backend.aexecute(a["command"], timeout=a["timeout"])
    return render.executed(response, a["timeout"])


def _check(error: str | None) -> None:
    if error:
        raise ToolException(render.clean(render.clip(error)))


@dataclass(frozen=True)
class _Tool:
    name: str
    arguments: type[_Arguments]
    run: Callable[[SandboxBackendProtocol, Arguments], Awaitable[str]]
    description: str


_TOOLS = (
    _Tool("ls", _Ls, _ls, "List a directory: size in bytes, time of the last change, path. Directories end with /."),
    _Tool(
        "read_file",
        _ReadFile,
        _read_file,
        "Read a text file. Each line comes with its number and a tab, which are not part of the file. "
        "A long file comes in windows: the last line says how to read on.",
    ),
    _Tool(
        "write_file", _WriteFile, _write_file, "Create a new text file. A file that exists is left alone: edit_file changes it."
    ),
    _Tool("edit_file", _EditFile, _edit_file, "Replace an exact piece of text in a file. Read the file first."),
    _Tool("glob", _Glob, _glob, "Find files by a pattern for their names."),
    _Tool("grep", _Grep, _grep, "Find text in files. It is searched literally: write foo( and not foo\\(."),
    _Tool(
        "execute",
        _Execute,
        _execute,
        "Run a shell command in the working directory: tests, builds, git. It has no terminal and no input. "
        "Its output (stdout and stderr) and its exit code come back when it has ended.",
    ),
)


def backend_tools(backend: SandboxBackendProtocol) -> list[BaseTool]:
    """The file tools and `execute`, acting on `backend`."""
    return [_bind(tool, backend) for tool in _TOOLS]


def _bind(tool: _Tool, backend: SandboxBackendProtocol) -> BaseTool:
    async def call(**given: Any) -> str:
        arguments = tool.arguments.model_validate(given)
        return render.clean(await tool.run(backend, arguments.model_dump()))

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.arguments,
        coroutine=call,
        handle_tool_error=True,
        handle_validation_error=_invalid_arguments,
    )


def _invalid_arguments(exc: Any) -> str:
    """What is wrong with the arguments, without repeating them: they may be long."""
    if not isinstance(exc, ValidationError):
        return "Error: the arguments are not valid"
    problems = [
        f"{'.'.join(str(part) for part in error['loc']) or 'arguments'}: {error['msg']}"
        for error in exc.errors(include_url=False, include_input=False)
    ]
    return render.clip("Error: the arguments are not valid: " + "; ".join(problems))
