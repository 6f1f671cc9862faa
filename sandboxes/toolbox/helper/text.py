"""What paths, paging, globbing, searching and replacing mean: pure functions, shared by every backend."""

import base64
import io
import re

from . import media

READ_CAP = 1024 * 1024
"""Bytes of text that one `read` returns at most."""
BINARY_CAP = 10 * 1024 * 1024
"""Bytes of a binary file that `read` returns at most."""
SCAN_CAP = 64 * 1024 * 1024
"""Bytes up to which a file's lines are counted."""
SNIFF = 8192
"""Bytes looked at to tell text from binary."""
LINE_CAP = 2000
"""Characters of a matching line that `grep` returns at most."""
_CHUNK = 256 * 1024


class Refused(Exception):
    """A request that cannot be met, with a code and a message that a model can act on."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        self.message = message


def absolute(path, workdir):
    """`path` as an absolute, normalized path; a relative one begins in `workdir`. `..`, NUL and half characters are refused."""
    if not path or "\0" in path:
        raise Refused("invalid_path", "Error: Path {!r} is empty or has a NUL byte".format(path))
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Refused("invalid_path", "Error: Path {!r} cannot be written as UTF-8".format(path)) from None
    if ".." in path.split("/"):
        raise Refused("invalid_path", "Error: Path '{}' must not contain '..'".format(path))
    full = path if path.startswith("/") else workdir + "/" + path
    return "/" + "/".join(part for part in full.split("/") if part not in ("", "."))


def not_found(path):
    """The refusal for a missing file, in the seeds' words."""
    return Refused("file_not_found", "Error: File '{}' not found".format(path))


def is_binary(head):
    """Whether bytes from the start of a file say that it is not text."""
    if b"\0" in head:
        return True
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as exc:
        return not (exc.reason == "unexpected end of data" and exc.start >= len(head) - 3)
    return False


def read_window(stream, size, offset, limit, byte_offset=None, cap=READ_CAP, path=""):
    """Read lines `offset` (0-based) to `offset + limit` of a binary stream of `size` bytes.

    `path` tells media from text by its extension. Returns a dict with the fields of `ReadResult` (`content` and `encoding` in
    place of `file_data`). With `byte_offset` the
    window starts there, whatever line that is in, and has no line numbers.
    """
    if limit <= 0:
        return {"content": "", "encoding": "utf-8", "no_lines_requested": True}
    if media.is_media(path) or is_binary(stream.read(SNIFF)):
        return _whole_binary(stream, size, path)
    if offset < 0 or (byte_offset or 0) < 0:
        raise Refused("invalid_argument", "Error: offset must not be negative")
    stream.seek(0)
    skipped, position = (0, byte_offset) if byte_offset is not None else _skip_lines(stream, offset)
    if position >= size and size > 0 or skipped < offset and byte_offset is None:
        where = "byte {}".format(byte_offset) if byte_offset is not None else "line offset {}".format(offset)
        has = "{} bytes".format(size) if byte_offset is not None else "{} lines".format(skipped)
        raise Refused("invalid_argument", "Error: {} is past the end of '{}', which has {}".format(where, path, has))
    stream.seek(position)
    data, lines, cut = _take_lines(stream, limit, cap, size - position)
    try:
        content = data.decode("utf-8")
    except UnicodeDecodeError:
        if byte_offset is None:
            return _whole_binary(stream, size, path)
        content = data.decode("utf-8", "replace")
    end = position + len(data)
    result = {"content": content, "encoding": "utf-8"}
    if cut:
        result["next_byte"] = end
    if byte_offset is not None:
        if end < size:
            result["next_byte"] = end
        return result
    if lines:
        result.update(start_line=offset + 1, end_line=offset + lines)
        if end < size and not cut:
            result["next_offset"] = offset + lines
        if size <= SCAN_CAP:
            stream.seek(end)
            result["total_lines"] = offset + lines + _count_lines(stream, partial=cut)
    return result


def _whole_binary(stream, size, path):
    if size > BINARY_CAP:
        raise Refused(
            "invalid_path",
            "Error: File '{}' is binary and has {} bytes, more than the {} that can be read: "
            "download it, or look at it with a command".format(path, size, BINARY_CAP),
        )
    stream.seek(0)
    return {"content": base64.b64encode(stream.read(BINARY_CAP)).decode("ascii"), "encoding": "base64"}


def _skip_lines(stream, count):
    """Pass `count` lines; returns how many there were (at most `count`) and the position after them."""
    passed, position = 0, 0
    ended_in_newline = True
    while passed < count:
        chunk = stream.read(_CHUNK)
        if not chunk:
            return passed + (0 if ended_in_newline else 1), position
        found = chunk.count(b"\n")
        if passed + found < count:
            passed += found
            position += len(chunk)
            ended_in_newline = chunk.endswith(b"\n")
            continue
        at = -1
        for _ in range(count - passed):
            at = chunk.index(b"\n", at + 1)
        return count, position + at + 1
    return passed, position


def _take_lines(stream, limit, cap, left):
    """Up to `limit` whole lines of at most `cap` bytes together: (bytes, lines, whether the only line had to be cut).

    `left` bytes are expected: to ask for many more costs more than the reading.
    """
    data = stream.read(min(cap, max(0, left)) + 1)
    ends, at = 0, -1
    while ends < limit:
        following = data.find(b"\n", at + 1)
        if following < 0 or following >= cap:
            break
        ends, at = ends + 1, following
    if ends == limit:
        return data[: at + 1], ends, False
    if len(data) <= cap:
        return data, ends + (1 if at + 1 < len(data) else 0), False
    if ends:
        return data[: at + 1], ends, False
    return _whole_characters(data[:cap]), 1, True


def _whole_characters(data):
    """`data` without an incomplete UTF-8 sequence at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = 1 if byte < 0x80 else 2 if byte >> 5 == 6 else 3 if byte >> 4 == 14 else 4
            return data[:-back] if length > back else data
    return data


def _count_lines(stream, partial):
    """Lines from here to the end; with `partial` the line that is under way was counted already."""
    count, last = 0, b"\n"
    for chunk in iter(lambda: stream.read(_CHUNK), b""):
        count += chunk.count(b"\n")
        last = chunk
    total = count + (0 if last.endswith(b"\n") else 1)
    return max(0, total - 1) if partial else total


def replace(content, old, new, replace_all, path):
    """`content` with `old` replaced, and how often. `old` must occur, and only once unless `replace_all`."""
    if not old:
        raise Refused("invalid_argument", "Error: old_string must not be empty")
    count = content.count(old)
    if count == 0:
        raise Refused("invalid_argument", "Error: old_string was not found in '{}'".format(path))
    if count > 1 and not replace_all:
        raise Refused(
            "invalid_path",
            "Error: old_string occurs {} times in '{}': give more of the lines around it, "
            "or set replace_all".format(count, path),
        )
    return content.replace(old, new), count


def glob_matcher(pattern):
    """A function from a path relative to the root of the search to whether `pattern` matches it.

    Without `/` the pattern means the base name at any depth; with `/` the whole relative path; a leading `/` anchors.
    `**` crosses directories; `*`, `?` and `**` do not match a leading dot; `{a,b}` and `[a-z]` work as in a shell.
    """
    if not pattern or ".." in pattern.split("/"):
        raise Refused("invalid_argument", "Error: glob pattern '{}' is empty or contains '..'".format(pattern))
    if "\0" in pattern:
        raise Refused("invalid_argument", "Error: glob pattern has a NUL byte")
    anchored = pattern if "/" in pattern else "**/" + pattern
    expanded = alternatives(anchored.lstrip("/"))
    return re.compile("|".join("(?:{})".format(_glob_regex(one)) for one in expanded), re.DOTALL).fullmatch


_BRACES_CAP = 256


def alternatives(pattern):
    """Expand the braces of a pattern, at most to 256 alternatives."""
    done, todo = [], [pattern]
    while todo:
        one = todo.pop()
        match = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if not match:
            done.append(one)
            continue
        todo.extend(one[: match.start()] + choice + one[match.end() :] for choice in match[1].split(","))
        if len(done) + len(todo) > _BRACES_CAP:
            raise Refused("invalid_argument", "Error: glob pattern has more than {} alternatives".format(_BRACES_CAP))
    return done


def _glob_regex(pattern):
    segments = [part for part in pattern.split("/") if part not in ("", ".")]
    out = []
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == "**":
            out.append(r"(?:[^/.][^/]*/)*" + (r"[^/.][^/]*" if last else ""))
        else:
            out.append(_segment_regex(segment) + ("" if last else "/"))
    return "".join(out)


def _segment_regex(segment):
    out, at = [], 0
    if segment[0] in "*?[":
        out.append(r"(?!\.)")
    while at < len(segment):
        char = segment[at]
        at += 1
        close = segment.find("]", at + 1) if char == "[" else -1
        if char == "*":
            if not out or out[-1] != "[^/]*":
                out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif close > 0:
            body = re.sub(r"[\\\[&~|]", r"\\\g<0>", segment[at:close])
            body = "^" + body[1:] if body[0] in "!^" else body
            try:
                re.compile("[" + body + "]")
                out.append("(?!/)[" + body + "]")
            except re.error:
                out.append(re.escape(segment[at - 1 : close + 1]))
            at = close + 1
        else:
            out.append(re.escape(char))
    return "".join(out)


def grep_lines(data, pattern, most):
    """Lines of `data` (bytes) that contain `pattern` (bytes): [(line number, text)], at most `most`."""
    if pattern not in data or is_binary(data[:SNIFF]):
        return []
    found, number, start = [], 1, 0
    at = data.find(pattern)
    while at >= 0 and len(found) < most:
        number += data.count(b"\n", start, at)
        begin = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = data[begin:end]
        found.append((number, _clip(line.decode("utf-8", "replace").rstrip("\r"))))
        start, number = end + 1, number + 1
        at = data.find(pattern, end + 1)
    return found


def _clip(line):
    return line if len(line) <= LINE_CAP else line[:LINE_CAP] + "... [{} more characters]".format(len(line) - LINE_CAP)


def stream_of(content):
    """Bytes as a stream for `read_window`."""
    return io.BytesIO(content)
