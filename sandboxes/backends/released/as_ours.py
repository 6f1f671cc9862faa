"""Results of the `deepagents` package's backends as ours: sorted, with absolute paths, in our words."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from deepagents.backends.utils import EMPTY_CONTENT_WARNING

from sandboxes import protocol as p
from sandboxes.mime import mime_type
from sandboxes.toolbox.helper import text

OUTPUT_CAP: Final = 100_000
"""Characters of a command's output, half of them from the head and half from the tail."""


def message(error: str) -> str:
    """Their words, as an error of ours begins; of a traceback only what it comes to."""
    said = error.strip().rpartition("\n")[2] if "Traceback (most" in error else error
    return said if said.startswith("Error") else f"Error: {said}"


def is_missing(error: str) -> bool:
    """Whether they say that nothing is at a path."""
    said = error.lower()
    return any(words in said for words in ("not found", "not_found", "no such file", "does not exist"))


def is_about_kind(error: str) -> bool:
    """Whether they say that there is no file at a path: some say that a folder is missing, too."""
    return is_missing(error) or "not_a_file" in error or "not a regular file" in error


def past_the_end(error: str, path: str, offset: int) -> str | None:
    """Their words for an offset past the end, in ours; None when it is something else."""
    found = re.search(r"exceeds file length \((\d+) lines\)", error)
    return f"Error: line offset {offset} is past the end of '{path}', which has {found[1]} lines" if found else None


def edited(error: str, path: str, old: str) -> str:
    """Why an edit failed, in our words where they are known. Theirs quote what was to be replaced."""
    said = error.replace(f"'{old}'", "")
    if "String not found" in said:
        return f"Error: old_string was not found in '{path}'"
    if re.search(r"appears (multiple|\d+) times", said):
        return f"Error: old_string occurs more than once in '{path}': give more of the lines around it, or set replace_all"
    if re.search(r"not a text file|binary file|codec can't decode", said):
        return f"Error: '{path}' is not UTF-8 text: it cannot be edited"
    return message(error)


def infos(entries: Iterable[Mapping[str, Any]], base: str) -> list[p.FileInfo]:
    """Entries sorted by path, each once; what has a relative path is below `base`."""
    made = {info["path"]: info for info in (_info(entry, base) for entry in entries)}
    return [made[path] for path in sorted(made)]


def _info(entry: Mapping[str, Any], base: str) -> p.FileInfo:
    path = _absolute(str(entry["path"]), base)
    folder = bool(entry.get("is_dir", path.endswith("/")))
    info = p.FileInfo(path=path.rstrip("/") + "/" if folder else path, is_dir=folder)
    if not folder and isinstance(entry.get("size"), int):
        info["size"] = entry["size"]
    if entry.get("modified_at"):
        info["modified_at"] = entry["modified_at"]
    return info


def _absolute(path: str, base: str) -> str:
    return path if path.startswith("/") else f"{base.rstrip('/')}/{path}"


def read(result: Any, path: str, offset: int, limit: int) -> p.ReadResult:
    """A window of a file. Theirs may leave out the end of its last line: where the file ends, too, that stays so."""
    data = file_data(result.file_data, path)
    if data["encoding"] == "base64" or result.no_lines_requested:
        return p.ReadResult(file_data=data, no_lines_requested=result.no_lines_requested)
    if result.start_line is None:
        lines = len(data["content"].removesuffix("\n").split("\n"))
        end = offset + lines
        following = end if lines >= limit else None
        return p.ReadResult(file_data=data, start_line=offset + 1, end_line=end, next_offset=following)
    data["content"] = _ended(data["content"], result)
    numbers = {name: getattr(result, name) for name in ("total_lines", "start_line", "end_line", "next_offset")}
    return p.ReadResult(file_data=data, **numbers)


def tells_nothing(result: Any) -> bool:
    """Whether an answer to `read` does not say what is in the file: theirs replace what is empty or blank by a sentence of
    their own, or give it without numbers, and some refuse what is not UTF-8."""
    if result.error is not None or result.file_data is None:
        return "codec can't decode" in (result.error or "")
    content = result.file_data["content"]
    return result.start_line is None and (content == EMPTY_CONTENT_WARNING or not "".join(content).strip())


def window(raw: bytes, path: str, offset: int, limit: int) -> p.ReadResult:
    """A window of a file whose bytes are all here. Raises `text.Refused`."""
    found = text.read_window(io.BytesIO(raw), len(raw), offset, limit, path=path)
    encoding = found.pop("encoding")
    kind = mime_type(path, binary=encoding == "base64")
    return p.ReadResult(file_data=p.FileData(content=found.pop("content"), encoding=encoding, mime_type=kind), **found)


def file_data(data: Mapping[str, Any], path: str) -> p.FileData:
    """The content of the file `path`. Their first format has a list of lines."""
    content, encoding = data["content"], data.get("encoding", "utf-8")
    whole = "\n".join(content) if isinstance(content, list) else str(content)
    made = p.FileData(content=whole, encoding=encoding, mime_type=mime_type(path, binary=encoding == "base64"))
    if data.get("created_at"):
        made["created_at"] = data["created_at"]
    if data.get("modified_at"):
        made["modified_at"] = data["modified_at"]
    return made


def _ended(content: str, result: Any) -> str:
    follows = result.next_offset is not None or (result.total_lines or 0) > result.end_line
    whole = content.count("\n") > result.end_line - result.start_line
    return content + "\n" if follows and not whole else content


def grep(result: Any, base: str, most: int | None) -> p.GrepResult:
    """Matching lines, sorted, at most `most`. Theirs may come with an error about some of the files: they stay."""
    if result.matches is None or (result.error is not None and not result.matches):
        return p.GrepResult(error=message(result.error or "no matches were returned"))
    found = [
        p.GrepMatch(path=_absolute(match["path"], base), line=match["line"], text=match["text"]) for match in result.matches
    ]
    found.sort(key=lambda match: (match["path"], match["line"]))
    cut = most is not None and len(found) > most
    return p.GrepResult(matches=found[:most], truncated=cut or result.truncated or result.error is not None)


def glob(result: Any, base: str) -> p.GlobResult:
    """Matching files, sorted."""
    if result.matches is None or (result.error is not None and not result.matches):
        return p.GlobResult(error=message(result.error or "no matches were returned"))
    found = [info for info in infos(result.matches, base) if not info.get("is_dir")]
    cut = result.truncated or result.error is not None
    return p.GlobResult(matches=found, truncated=cut, truncation_reason=getattr(result, "truncation_reason", None))


def executed(result: Any) -> p.ExecuteResponse:
    """What a command left behind, of which no more than `OUTPUT_CAP` is kept."""
    output = result.output or ""
    left_out = len(output) - OUTPUT_CAP
    if left_out > 0:
        half = OUTPUT_CAP // 2
        output = f"{output[:half]}\n... [{left_out} characters left out] ...\n{output[-half:]}"
    return p.ExecuteResponse(output, result.exit_code, truncated=bool(result.truncated) or left_out > 0)
