"""What a model reads of a tool's result: pure functions from the protocol's results to text of bounded length.

Everything that comes out of a sandbox is shown as data: names with control characters are quoted, text that cannot be encoded
is replaced, and what is left out is said, with the arguments that reach it.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections import Counter

from sandboxes.protocol import ExecuteResponse, FileInfo, GlobResult, GrepMatch, GrepResult, ReadResult

TEXT_CAP = 60_000
"""Characters of one tool result: about 15,000 tokens."""
ENTRIES_CAP = 1000
"""Lines of a listing, of a glob and of a grep."""
CONTEXT_CAP = 2000
"""Characters of a line around a match."""
OUTPUT_CAP = 100_000
"""Characters of a command's output: as many as a sandbox returns, so that nothing is cut twice."""

_TRUNCATED_GLOB = {
    "budget": "there are too many files, or it took too long: search in a smaller folder or with a narrower pattern",
    "unreadable": "some folders cannot be read",
    "transport": "the list was too long for one answer: search in a smaller folder",
}


def clean(text: str) -> str:
    """`text` as it can be stored and sent: what is not Unicode (lone surrogates, from odd file names) becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def shown_path(path: str) -> str:
    """A path on one line: with control characters in it, it is quoted as in JSON."""
    return path if path.isprintable() else json.dumps(path)


def listing(path: str, entries: list[FileInfo]) -> str:
    """Size, time of the last change, and path of each entry."""
    if not entries:
        return f"[{shown_path(path)} is empty]"
    lines = [f"{_size(entry):>12}  {_time(entry):<20}  {shown_path(entry['path'])}" for entry in entries]
    return _bounded(lines, "entries: list a folder below, or use glob")


def _size(entry: FileInfo) -> str:
    return "-" if entry.get("is_dir") else str(entry.get("size", "?"))


def _time(entry: FileInfo) -> str:
    """To the second: `2026-01-31T12:00:00Z`."""
    stamp = entry.get("modified_at", "")
    return f"{stamp[:19]}Z" if len(stamp) >= 19 else "?"


def globbed(pattern: str, result: GlobResult) -> str:
    """One path on each line."""
    lines = [shown_path(match["path"]) for match in result.matches or []]
    told = _bounded(lines or [f"[No file matches {shown_path(pattern)}]"], "files: use a narrower pattern")
    return f"{told}\n[Incomplete: {_TRUNCATED_GLOB[result.truncation_reason or 'budget']}]" if result.truncated else told


Lines = dict[str, dict[int, str]]
"""Lines of files, by path and number."""


def grepped(pattern: str, result: GrepResult, mode: str, around: Lines | None = None) -> str:
    """Files, lines or counts of the matches; `around` are the lines to show before and after them."""
    matches = result.matches or []
    if not matches:
        return f"[No line contains {json.dumps(pattern, ensure_ascii=False)}]"
    lines = _with_context(matches, around) if around else _grep_lines(matches, mode)
    told = _bounded(lines, "lines: narrow the search with path or glob")
    return f"{told}\n[Incomplete: there are more matches; use path, glob or a longer pattern]" if result.truncated else told


def _grep_lines(matches: list[GrepMatch], mode: str) -> list[str]:
    if mode == "content":
        return [f"{shown_path(match['path'])}:{match['line']}:{match['text']}" for match in matches]
    counts = Counter(match["path"] for match in matches)
    if mode == "count":
        return [f"{shown_path(path)}:{count}" for path, count in counts.items()]
    return [shown_path(path) for path in counts]


def windows(matches: list[GrepMatch], context: int) -> list[tuple[str, int, int]]:
    """Path, first and last line of what is to be shown around matches; windows that touch are one."""
    found: list[tuple[str, int, int]] = []
    for match in matches:
        path, start, end = match["path"], max(1, match["line"] - context), match["line"] + context
        if found and found[-1][0] == path and start <= found[-1][2] + 1:
            found[-1] = (path, found[-1][1], end)
        else:
            found.append((path, start, end))
    return found


def _with_context(matches: list[GrepMatch], around: Lines) -> list[str]:
    """Matches with `:` and the lines around them with `-` after path and number; `--` where lines are left out."""
    shown: list[str] = []
    last: tuple[str, int] | None = None
    hits = {(match["path"], match["line"]): match["text"] for match in matches}
    for path in dict.fromkeys(match["path"] for match in matches):
        numbers = sorted({*around.get(path, {}), *(line for of, line in hits if of == path)})
        for number in numbers:
            if last is not None and last != (path, number - 1):
                shown.append("--")
            hit = hits.get((path, number))
            mark, text = (":", hit) if hit is not None else ("-", clip(around[path][number].rstrip("\r"), CONTEXT_CAP))
            shown.append(f"{shown_path(path)}{mark}{number}{mark}{text}")
            last = (path, number)
    return shown


def _bounded(lines: list[str], what: str) -> str:
    """As many whole lines as fit, and how many more there are."""
    ends = itertools.accumulate(len(line) + 1 for line in lines)
    fitting = sum(end <= TEXT_CAP for end in itertools.islice(ends, ENTRIES_CAP))
    left_out = len(lines) - fitting
    return "\n".join([*lines[:fitting], *([f"[{left_out} more {what}]"] if left_out else [])])


def clip(text: str, cap: int = TEXT_CAP) -> str:
    """At most `cap` characters of `text`: its head and its tail."""
    if len(text) <= cap:
        return text
    head, tail = cap * 2 // 3, cap - cap * 2 // 3
    return f"{text[:head]}\n[... {len(text) - cap} characters left out ...]\n{text[-tail:]}"


def executed(response: ExecuteResponse, timeout: int) -> str:
    """The output of a command, what is missing of it, and how it ended."""
    # What lies in a file whole need not go to another one: this much is not too long for a conversation.
    output = clip(response.output, TEXT_CAP if response.output_file else OUTPUT_CAP)
    parts = [output] if output else []
    if response.truncated or output is not response.output:
        parts.append(_where_the_rest_is(response))
    if response.timed_out:
        parts.append(f"[The command did not end within {timeout} seconds and was killed, with every process it had started]")
    outcome = "succeeded" if response.exit_code == 0 else "failed"
    parts.append(f"[Command {outcome} with exit code {response.exit_code}]")
    return "".join(part if part.endswith("\n") else part + "\n" for part in parts).rstrip("\n")


def _where_the_rest_is(response: ExecuteResponse) -> str:
    if response.output_file:
        return f"[Output truncated to its head and tail. All of it is in {shown_path(response.output_file)}: grep or read that]"
    return "[Output truncated to its head and tail. Run the command again with its output in a file, or a filter behind it]"


def file_text(path: str, result: ReadResult, offset: int, byte_offset: int | None) -> str:
    """A window of a file: numbered lines, or from `byte_offset` on the text as it is; then how to read on."""
    data = result.file_data
    content = data["content"] if data else ""
    if not content:
        return f"[{shown_path(path)} is empty]"
    if data and data["encoding"] == "base64":
        size = len(base64.b64decode(content))
        return f"[{shown_path(path)} is binary, {size} bytes, and not shown. Look at it with a command, such as od or file]"
    if byte_offset is not None:
        return _from_byte(content, byte_offset, result.next_byte)
    return _numbered(path, content, offset, result)


def _from_byte(content: str, start: int, next_byte: int | None) -> str:
    if len(content) > TEXT_CAP:
        content = content[:TEXT_CAP]
        next_byte = start + _byte_length(content)
    return content if next_byte is None else f"{content}\n[Not the end. Read on with byte_offset={next_byte}]"


def _byte_length(text: str) -> int:
    """Bytes that `text` had in its file, or fewer: a replacement character stands for one byte at least.

    Reading on from there repeats a few bytes at worst, and skips none.
    """
    return len(text.encode("utf-8", "replace")) - 2 * text.count("\ufffd")


def _numbered(path: str, content: str, offset: int, result: ReadResult) -> str:
    lines = content.removesuffix("\n").split("\n")
    shown, used = [], 0
    for number, line in enumerate(lines, start=offset + 1):
        numbered = f"{number:>6}\t{line}"
        used += len(numbered) + 1
        if used > TEXT_CAP:
            break
        shown.append(numbered)
    if not shown:
        return _cut_line(path, lines[0], offset, len(content.encode()), result)
    if result.next_byte is not None and len(shown) == len(lines):
        shown.append(f"[Line {offset + len(lines)} goes on. Read on with byte_offset={result.next_byte}]")
    elif len(shown) < len(lines) or result.next_offset is not None:
        of = f" of {result.total_lines}" if result.total_lines else ""
        end = offset + len(shown)
        shown.append(f"[Lines {offset + 1} to {end}{of}. Read on with offset={end}]")
    return "\n".join(shown)


def _cut_line(path: str, line: str, offset: int, window: int, result: ReadResult) -> str:
    """The beginning of a line that is too long to be shown whole."""
    shown = line[:TEXT_CAP]
    if offset == 0:
        start: int | None = 0
    else:
        start = result.next_byte - window if result.next_byte is not None else None
    if start is not None:
        how = f"Read on with byte_offset={start + len(shown.encode())}"
    else:
        how = f"See the rest with execute: sed -n {offset + 1}p {shown_path(path)} | cut -c{TEXT_CAP + 1}-"
    told = f"[Line {offset + 1} is longer than {TEXT_CAP} characters. {how}; the next line has offset={offset + 1}]"
    return f"{offset + 1:>6}\t{shown}\n{told}"
