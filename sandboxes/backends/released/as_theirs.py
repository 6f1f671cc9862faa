"""Results of ours as those of the `deepagents` package, in its conventions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from deepagents.backends import protocol as d

from sandboxes import protocol as p

LONG_LINE: Final = "\n\n[This line is longer than one read returns: search for its rest, or use a command.]"
REST: Final = "\n[This is the head and the tail of the output. All of it is in {}]"
PREFIX: Final = "Error: "


def ls(result: p.LsResult) -> d.LsResult:
    """A listing."""
    return d.LsResult(_bare(result.error), None if result.entries is None else _infos(result.entries))


def read(result: p.ReadResult) -> d.ReadResult:
    """A window: the end of its last line is left out, unless the file ends there, and a line that was cut says so."""
    data = result.file_data
    if result.error is not None or data is None:
        return d.ReadResult(error=_bare(result.error))
    content, following = data["content"], result.next_offset
    if following is not None:
        content = content.removesuffix("\n")
    elif result.next_byte is not None:
        content += LONG_LINE
        following = None if result.total_lines == result.end_line else result.end_line
    return d.ReadResult(
        file_data=_file_data(data, content),
        total_lines=result.total_lines,
        start_line=result.start_line,
        end_line=result.end_line,
        next_offset=following,
        no_lines_requested=result.no_lines_requested,
    )


def _file_data(data: p.FileData, content: str) -> d.FileData:
    made = d.FileData(content=content, encoding=data["encoding"])
    if "created_at" in data:
        made["created_at"] = data["created_at"]
    if "modified_at" in data:
        made["modified_at"] = data["modified_at"]
    return made


def grep(result: p.GrepResult) -> d.GrepResult:
    """Matching lines."""
    matches = None if result.matches is None else [cast("d.GrepMatch", dict(match)) for match in result.matches]
    return d.GrepResult(result.error, matches, result.truncated)


def glob(result: p.GlobResult) -> d.GlobResult:
    """Matching files, by their absolute paths."""
    matches = None if result.matches is None else _infos(result.matches)
    return d.GlobResult(_bare(result.error), matches, result.truncated, result.truncation_reason)


def write(result: p.WriteResult) -> d.WriteResult:
    """The outcome of a write. A file that was there is told of in the words that callers of theirs look for."""
    error = result.error and result.error.replace("' exists already", "' already exists", 1)
    return d.WriteResult(error, result.path)


def replaced(path: str, responses: Sequence[p.FileUploadResponse]) -> d.WriteResult:
    """The outcome of an upload that stands in for a write."""
    [response] = responses
    if response.error is not None:
        return d.WriteResult(error=p.described(path, response.error))
    return d.WriteResult(path=path)


def edit(result: p.EditResult) -> d.EditResult:
    """The outcome of an edit."""
    return d.EditResult(result.error, result.path, result.occurrences)


def delete(result: p.DeleteResult) -> d.DeleteResult:
    """The outcome of a delete."""
    return d.DeleteResult(result.error, result.path)


def encodable(content: str) -> bytes | None:
    """The bytes of a text; None when it has none."""
    try:
        return content.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None


def absolute(path: str) -> bool:
    """Whether a batch may have this path. Theirs take no other; ours would begin a relative one in the working directory."""
    return path.startswith("/")


def uploads(files: Iterable[tuple[str, bytes]], came: Iterable[p.FileUploadResponse]) -> list[d.FileUploadResponse]:
    """The answers for all `files`, of which only those with absolute paths were passed on."""
    answers = iter(came)
    return [d.FileUploadResponse(path, next(answers).error if absolute(path) else p.INVALID_PATH) for path, _ in files]


def downloads(paths: Iterable[str], came: Iterable[p.FileDownloadResponse]) -> list[d.FileDownloadResponse]:
    """The answers for all `paths`, of which only the absolute ones were passed on."""
    answers = iter(came)
    refused = p.FileDownloadResponse("", error=p.INVALID_PATH)
    every = [(path, next(answers) if absolute(path) else refused) for path in paths]
    return [d.FileDownloadResponse(path, answer.content, answer.error) for path, answer in every]


def execute(result: p.ExecuteResponse, kept: p.ReadResult | None) -> d.ExecuteResponse:
    """What a command left behind. `kept` is what could be read of the file with all the output of a long one."""
    output = _whole(kept)
    if output is not None:
        return d.ExecuteResponse(output, result.exit_code)
    rest = REST.format(result.output_file) if result.output_file else ""
    return d.ExecuteResponse(result.output + rest, result.exit_code, result.truncated)


def _whole(kept: p.ReadResult | None) -> str | None:
    if kept is None or kept.content is None or kept.next_offset is not None or kept.next_byte is not None:
        return None
    return kept.content if isinstance(kept.content, str) else kept.content.decode(errors="replace")


def _infos(entries: Iterable[p.FileInfo]) -> list[d.FileInfo]:
    return [cast("d.FileInfo", dict(entry)) for entry in entries]


def _bare(error: str | None) -> str | None:
    """Without the prefix that their tools put before it themselves."""
    return None if error is None else error.removeprefix(PREFIX)
