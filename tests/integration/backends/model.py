"""A file system in a dictionary, written down plainly: what every backend has to answer.

It does not use the code under test, but for the glob patterns, which have tests of their own. Answers are plain tuples;
`Asked` makes the same ones of a backend's results.
"""

from __future__ import annotations

import base64
import codecs
import posixpath
from dataclasses import dataclass, field
from typing import Any

from sandboxes.protocol import BackendProtocol
from sandboxes.toolbox.helper.text import Refused, glob_matcher

Answer = tuple[Any, ...]
MEDIA = (".png", ".pdf")
"""Of the extensions that are never text, those that the tests use."""


def error(words: str) -> Answer:
    return ("error", f"Error: {words}")


def parents(path: str) -> set[str]:
    """Every folder above, the root among them."""
    found = set()
    while path != "/":
        path = posixpath.dirname(path)
        found.add(path)
    return found


def lines_of(content: str) -> list[str]:
    """Lines with their newlines; only a newline ends one."""
    return [line + "\n" for line in content.split("\n")[:-1]] + [last for last in content.split("\n")[-1:] if last]


def decoded(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def is_searched(path: str, content: bytes) -> bool:
    """Whether grep looks into a file: one that was cut inside a character still counts as text."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content)
    except UnicodeDecodeError:
        return False
    return not path.lower().endswith(MEDIA) and b"\0" not in content


@dataclass
class Model:
    """`files` by path, and the folders that were made. Without `keeps_folders` a folder is there while a file is in it."""

    keeps_folders: bool
    files: dict[str, bytes] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)

    def folders(self) -> set[str]:
        inhabited = {parent for path in self.files for parent in parents(path)}
        return inhabited | {"/"} | (self.made if self.keeps_folders else set())

    def _blocked(self, path: str) -> bool:
        return any(parent in self.files for parent in parents(path))

    def _absent(self, path: str) -> Answer:
        if self._blocked(path):
            return error(f"'{path}' has a file where a directory should be")
        return error(f"File '{path}' not found")

    def _unreadable(self, path: str) -> Answer | None:
        if path in self.folders():
            return error(f"'{path}' is a directory")
        return None if path in self.files else self._absent(path)

    def _below(self, path: str) -> list[str]:
        return sorted(file for file in self.files if file.startswith(path.rstrip("/") + "/"))

    def ls(self, path: str) -> Answer:
        if path in self.files or self._blocked(path):
            return error(f"'{path}' is not a directory")
        if path not in self.folders():
            return error(f"Directory '{path}' not found")
        inside = [(file, False, len(content)) for file, content in self.files.items() if posixpath.dirname(file) == path]
        for folder in self.folders() - {"/"}:
            if posixpath.dirname(folder) == path:
                inside.append((folder + "/", True, None))
        return ("entries", *sorted(inside, key=lambda entry: entry[0]))

    def read(self, path: str, offset: int, limit: int) -> Answer:
        if refusal := self._unreadable(path):
            return refusal
        content = self.files[path]
        if limit <= 0:
            return ("no lines asked",)
        if not is_searched(path, content):
            return ("binary", base64.b64encode(content).decode())
        if offset < 0:
            return error("offset must not be negative")
        lines = lines_of(content.decode(errors="surrogateescape"))
        if offset and offset >= len(lines):
            return error(f"line offset {offset} is past the end of '{path}', which has {len(lines)} lines")
        window = lines[offset : offset + limit]
        if not window:
            return ("text", "", None, None, None, None)
        if decoded("".join(window).encode(errors="surrogateescape")) is None:
            return ("binary", base64.b64encode(content).decode())
        end = offset + len(window)
        return ("text", "".join(window), offset + 1, end, end if end < len(lines) else None, len(lines))

    def write(self, path: str, content: str) -> Answer:
        if path in self.files or path in self.folders():
            return error(f"'{path}' exists already: read it and edit it, or write to another path")
        if self._blocked(path):
            return self._absent(path)
        self._put(path, content.encode())
        return ("written", path)

    def _put(self, path: str, content: bytes) -> None:
        self.files[path] = content
        self.made |= parents(path)

    def edit(self, path: str, old: str, new: str, replace_all: bool) -> Answer:
        if refusal := self._unreadable(path):
            return refusal
        text = decoded(self.files[path])
        if text is None:
            return error(f"'{path}' is not UTF-8 text: it cannot be edited")
        if not old:
            return error("old_string must not be empty")
        count = text.count(old)
        if count == 0:
            return error(f"old_string was not found in '{path}'")
        if count > 1 and not replace_all:
            advice = "give more of the lines around it, or set replace_all"
            return error(f"old_string occurs {count} times in '{path}': {advice}")
        self.files[path] = text.replace(old, new).encode()
        return ("edited", path, count)

    def delete(self, path: str) -> Answer:
        if path not in self.files and path not in self.folders():
            return self._absent(path)
        gone = [path, *self._below(path)]
        self.files = {file: content for file, content in self.files.items() if file not in gone}
        self.made = {folder for folder in self.made if folder != path and path not in parents(folder)}
        return ("deleted", path)

    def upload(self, path: str, content: bytes) -> Answer:
        if path in self.folders():
            return ("upload", "is_directory")
        if self._blocked(path):
            return ("upload", "invalid_path")
        self._put(path, content)
        return ("upload", None)

    def download(self, path: str) -> Answer:
        if path in self.files:
            return ("download", self.files[path], None)
        blocked = "invalid_path" if self._blocked(path) else "file_not_found"
        return ("download", None, "is_directory" if path in self.folders() else blocked)

    def glob(self, path: str, pattern: str) -> Answer:
        try:
            matches = glob_matcher(pattern)
        except Refused as exc:
            return ("error", exc.message)
        if path in self.files:
            return error(f"'{path}' is not a directory")
        if path not in self.folders():
            return self._absent(path)
        return ("found", *(file for file in self._below(path) if matches(posixpath.relpath(file, path))))

    def grep(self, path: str, pattern: str, glob: str | None, max_count: int | None) -> Answer:
        if not pattern:
            return error("the pattern must not be empty")
        try:
            matches = glob_matcher(glob) if glob else lambda _: True
        except Refused as exc:
            return ("error", exc.message)
        if path not in self.files and path not in self.folders():
            return self._absent(path)
        candidates = [path] if path in self.files else self._below(path)
        top = posixpath.dirname(path) if path in self.files else path
        found = [
            (file, number, line.rstrip("\n").rstrip("\r"))
            for file in candidates
            if matches(posixpath.relpath(file, top)) and is_searched(file, self.files[file])
            for number, line in enumerate(lines_of(self.files[file].decode(errors="replace")), 1)
            if pattern in line.rstrip("\n")
        ]
        most = len(found) if max_count is None else max(0, max_count)
        return ("lines", len(found) > most, *found[:most])


class Asked:
    """A backend, and its answers in the model's form."""

    def __init__(self, backend: BackendProtocol) -> None:
        self.backend = backend

    def ls(self, path: str) -> Answer:
        done = self.backend.ls(path)
        if done.entries is None:
            return ("error", done.error)
        entries = [(entry["path"], entry.get("is_dir", False), entry.get("size")) for entry in done.entries]
        return ("entries", *((path, folder, None if folder else size) for path, folder, size in entries))

    def read(self, path: str, offset: int, limit: int) -> Answer:
        done = self.backend.read(path, offset, limit)
        if done.file_data is None:
            return ("error", done.error)
        if done.no_lines_requested:
            return ("no lines asked",)
        if done.file_data["encoding"] == "base64":
            return ("binary", done.file_data["content"])
        return ("text", done.file_data["content"], done.start_line, done.end_line, done.next_offset, done.total_lines)

    def write(self, path: str, content: str) -> Answer:
        done = self.backend.write(path, content)
        return ("error", done.error) if done.error else ("written", done.path)

    def edit(self, path: str, old: str, new: str, replace_all: bool) -> Answer:
        done = self.backend.edit(path, old, new, replace_all)
        return ("error", done.error) if done.error else ("edited", done.path, done.occurrences)

    def delete(self, path: str) -> Answer:
        done = self.backend.delete(path)
        return ("error", done.error) if done.error else ("deleted", done.path)

    def upload(self, path: str, content: bytes) -> Answer:
        [done] = self.backend.upload_files([(path, content)])
        assert done.path == path
        return ("upload", done.error)

    def download(self, path: str) -> Answer:
        [done] = self.backend.download_files([path])
        assert done.path == path
        return ("download", done.content, done.error)

    def glob(self, path: str, pattern: str) -> Answer:
        done = self.backend.glob(pattern, path)
        return ("error", done.error) if done.matches is None else ("found", *(match["path"] for match in done.matches))

    def grep(self, path: str, pattern: str, glob: str | None, max_count: int | None) -> Answer:
        done = self.backend.grep(pattern, path, glob, max_count=max_count)
        if done.matches is None:
            return ("error", done.error)
        return ("lines", done.truncated, *((match["path"], match["line"], match["text"]) for match in done.matches))
