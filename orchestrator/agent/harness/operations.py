"""What each file tool does with a backend, and what the model reads of it.

What a model can mend is a `ToolException`: a missing file, an edit that does not fit. What it cannot mend (the sandbox
failed) is another exception, and passes through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.tools import ToolException

from orchestrator.agent import render
from orchestrator.agent.harness import arguments
from orchestrator.agent.harness.multimodal import Blocks, blocks
from sandboxes.backends.layered.steps import Call, Steps
from sandboxes.protocol import (
    BackendProtocol,
    FileData,
    GrepMatch,
    ReadResult,
    SandboxBackendProtocol,
    described,
)
from sandboxes.sandbox import Sandbox
from sandboxes.toolbox.helper import text

GREP_CAP = 10_000
"""Matches that one search asks for."""


@dataclass(frozen=True)
class Changed:
    """The result of a tool that changed files which are agent state, of a backend that does not write them itself."""

    text: str
    files: Mapping[str, FileData]


Output = str | Blocks | Changed
Operation = Callable[[BackendProtocol, Any], Steps[Output]]


def ls(backend: BackendProtocol, a: arguments.Ls) -> Steps[Output]:
    """Size, time and path of each entry."""
    [result] = yield [Call(backend, "ls", (a.path,))]
    _check(result.error)
    return render.listing(a.path, result.entries or [])


def read_file(backend: BackendProtocol, a: arguments.ReadFile) -> Steps[Output]:
    """Numbered lines, the text from a byte on, or the blocks of a medium."""
    if a.byte_offset is None:
        [result] = yield [Call(backend, "read", (a.file_path, a.offset, a.limit))]
    elif isinstance(backend, Sandbox):
        [result] = yield [Call(backend, "read", (a.file_path, 0, a.limit), {"byte_offset": a.byte_offset})]
    else:
        result = yield from _read_from_byte(backend, a.file_path, a.byte_offset, a.limit)
    _check(result.error)
    shown = blocks(a.file_path, result.file_data)
    return render.file_text(a.file_path, result, a.offset, a.byte_offset) if shown is None else shown


def _read_from_byte(backend: BackendProtocol, path: str, byte_offset: int, limit: int) -> Steps[ReadResult]:
    """The window of a file of a backend that reads by lines only."""
    [found] = (yield [Call(backend, "download_files", ([path],))])[0]
    if found.content is None:
        return ReadResult(error=described(path, found.error or "file_not_found"))
    try:
        window = text.read_window(text.stream_of(found.content), len(found.content), 0, limit, byte_offset, path=path)
    except text.Refused as exc:
        return ReadResult(error=exc.message)
    data = FileData(content=window["content"], encoding=window["encoding"])
    return ReadResult(file_data=data, next_byte=window.get("next_byte"))


def write_file(backend: BackendProtocol, a: arguments.WriteFile) -> Steps[Output]:
    """Create a file."""
    [result] = yield [Call(backend, "write", (a.file_path, a.content))]
    _check(result.error)
    return _changed(f"Created {render.shown_path(result.path or a.file_path)}", result.files_update)


def edit_file(backend: BackendProtocol, a: arguments.EditFile) -> Steps[Output]:
    """Replace text in a file."""
    [result] = yield [Call(backend, "edit", (a.file_path, a.old_string, a.new_string, a.replace_all))]
    _check(result.error)
    times = "1 occurrence" if result.occurrences == 1 else f"{result.occurrences} occurrences"
    return _changed(f"Replaced {times} in {render.shown_path(result.path or a.file_path)}", result.files_update)


def _changed(told: str, files: Mapping[str, FileData] | None) -> Output:
    return Changed(told, files) if files else told


def delete(backend: BackendProtocol, a: arguments.Delete) -> Steps[Output]:
    """Delete a file or a directory."""
    [result] = yield [Call(backend, "delete", (a.file_path,))]
    _check(result.error)
    return f"Deleted {render.shown_path(result.path or a.file_path)}"


def glob(backend: BackendProtocol, a: arguments.Glob) -> Steps[Output]:
    """Paths of the files that match."""
    [result] = yield [Call(backend, "glob", (a.pattern, a.path))]
    _check(result.error)
    return render.globbed(a.pattern, result)


def grep(backend: BackendProtocol, a: arguments.Grep) -> Steps[Output]:
    """Files, lines or counts of the matches."""
    [result] = yield [Call(backend, "grep", (a.pattern, a.path, a.glob), {"max_count": GREP_CAP})]
    _check(result.error)
    around: render.Lines = {}
    if a.output_mode == "content" and a.context:
        around = yield from _around(backend, result.matches or [], a.context)
    return render.grepped(a.pattern, result, a.output_mode, around)


def _around(backend: BackendProtocol, matches: list[GrepMatch], context: int) -> Steps[render.Lines]:
    """The lines around matches, by path and number: no more of them than can be shown."""
    lines: render.Lines = {}
    left = render.ENTRIES_CAP
    for path, start, end in render.windows(matches, context):
        [result] = yield [Call(backend, "read", (path, start - 1, min(end - start + 1, left)))]
        if result.file_data is None or result.file_data["encoding"] == "base64":
            continue
        found = result.file_data["content"].removesuffix("\n").split("\n")
        lines.setdefault(path, {}).update(enumerate(found, start=start))
        left -= len(found)
        if left <= 0:
            break
    return lines


def execute(backend: BackendProtocol, a: arguments.Execute) -> Steps[Output]:
    """The output of a command and how it ended."""
    if not isinstance(backend, SandboxBackendProtocol):
        raise ToolException(
            "Error: no command can be run here: these files are not in a sandbox. Work with the file tools instead"
        )
    [response] = yield [Call(backend, "execute", (a.command,), {"timeout": a.timeout})]
    return render.executed(response, a.timeout)


def _check(error: str | None) -> None:
    if error:
        raise ToolException(render.clean(render.clip(error)))
