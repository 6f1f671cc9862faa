"""The plain-exec transport's words and answers: what goes to its scripts, and what comes back. Nothing of it is trusted."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from sandboxes.errors import CallLost, ProtocolError, SandboxError, SandboxGone
from sandboxes.portal import on
from sandboxes.toolbox.helper import files, text
from sandboxes.toolbox.shell_exec import Exec
from sandboxes.toolbox.tracing import call_span

SCRIPTS = Path(__file__).with_name("scripts")
SECONDS: Final = 60.0
"""How long one script may take, without its data."""
BYTES_PER_SECOND: Final = 1024 * 1024
"""The slowest transfer that is waited for."""
ANSWER_CAP: Final = 32 * 1024 * 1024
"""Bytes that an answer has at most, without the contents of files that were asked for."""
SHELL: Final = "/bin/sh"

_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")
_MEANINGS = {
    "No such file or directory": errno.ENOENT,
    "No such file": errno.ENOENT,
    "Directory nonexistent": errno.ENOENT,
    "nonexistent directory": errno.ENOENT,
    "Not a directory": errno.ENOTDIR,
    "Is a directory": errno.EISDIR,
    "Permission denied": errno.EACCES,
    "Operation not permitted": errno.EPERM,
    "Read-only file system": errno.EROFS,
    "File name too long": errno.ENAMETOOLONG,
    "Filename too long": errno.ENAMETOOLONG,
    "Too many levels of symbolic links": errno.ELOOP,
    "Symbolic link loop": errno.ELOOP,
    "No space left on device": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "Quota exceeded": errno.EDQUOT,
    "File exists": errno.EEXIST,
}
"""What the tools of coreutils, busybox and the shells call an error, with glibc and with musl."""
_FOUND = re.compile(rb"F ([0-9a-f]{1,8}) (\d{1,18}) (-?\d{1,18}) ([\d:-]{1,80})")


@cache
def script(*names: str) -> str:
    """A script, made of the files of these names."""
    return "".join((SCRIPTS / f"{name}.sh").read_text() for name in names)


def word(value: str) -> str:
    """Any text (surrogates stand for bytes that are not UTF-8) as an ASCII word that `printf %b` takes apart."""
    return "".join(chr(byte) if byte in _SAFE else f"\\0{byte:03o}" for byte in os.fsencode(value))


def unword(value: str) -> str:
    """What `word` was made of."""
    plain_text = re.sub(rb"\\0([0-7]{3})", lambda match: bytes([int(match[1], 8) & 255]), value.encode("ascii", "replace"))
    return os.fsdecode(plain_text)


class Channel:
    """Runs our scripts in one sandbox."""

    def __init__(self, run: Exec, state: str, parallel: int) -> None:
        self._run = run
        self.state = state
        self._gate = asyncio.Semaphore(parallel)
        self._closed = False
        self._home = asyncio.get_running_loop()

    def close(self) -> None:
        """Refuse every later call."""
        self._closed = True

    async def call(
        self, *names: str, args: tuple[object, ...] = (), stdin: bytes = b"", cap: int = 0, seconds: float = SECONDS
    ) -> bytes:
        """The answer of a script, which may have `cap` bytes beyond `ANSWER_CAP`, from any loop. Raises `SandboxError`."""
        with call_span(names[0]):
            return await on(self._home, self._call(names, args, stdin, cap, seconds))

    async def _call(
        self, names: tuple[str, ...], args: tuple[object, ...], stdin: bytes, cap: int, seconds: float
    ) -> bytes:
        if self._closed:
            raise SandboxGone("the connection to the sandbox was closed")
        argv = [SHELL, "-c", script("prelude", *names), "fanfold", self.state, *map(str, args)]
        deadline = seconds + (len(stdin) + cap) / BYTES_PER_SECOND
        async with self._gate:
            result = await self._run(argv, stdin, deadline=deadline, cap=ANSWER_CAP + cap)
        if not result.stdout and result.exit_code == 137:
            raise SandboxGone("the sandbox ended during the call, or killed it")
        if not result.stdout:
            told = result.stderr.strip()[-300:] or "nothing"
            raise SandboxError(f"a script in the sandbox ended with {result.exit_code} and said: {told}")
        return result.stdout


def refusal(line: bytes, path: str) -> Exception:
    """An answer `E ...` as what it means: a `text.Refused`, or a `SandboxError`."""
    kind, _, message = line.decode("utf-8", "replace").removeprefix("E ").partition(" ")
    if kind == "os":
        meaning = message.rpartition(": ")[2].strip()
        number = next((number for name, number in _MEANINGS.items() if meaning.endswith(name)), errno.EIO)
        return known_refusal(OSError(number, meaning), path)
    if kind == "R":
        code, _, told = message.partition(" ")
        recorded: Exception = text.Refused(code, unword(told))
        return recorded
    if kind == "lost":
        return CallLost("the sandbox's record of this call has no end: whether it took effect cannot be known")
    refusals = {
        "folder": ("is_directory", f"Error: '{path}' is a directory"),
        "special": ("invalid_path", f"Error: '{path}' is not a regular file"),
        "plain": ("invalid_path", f"Error: '{path}' is not a directory"),
    }
    if kind not in refusals:
        return ProtocolError(f"a script in the sandbox answered {line[:80]!r}")
    made: Exception = text.Refused(*refusals[kind])
    return made


def known_refusal(exc: OSError, path: str) -> Exception:
    """An error of the system in the helper's words."""
    if exc.errno == errno.EEXIST:
        made: Exception = files.exists(path)
    else:
        made = files.refusal(exc, path)
    return made


def body(answer: bytes, path: str, expected: bytes = b"ok") -> bytes:
    """What follows the first line of an answer, which must be `expected`. Raises what another one means."""
    line, newline, rest = answer.partition(b"\n")
    if line != expected or not newline:
        raise refusal(line, path)
    return rest


@dataclass(frozen=True)
class Status:
    """What `stat` said of a file."""

    mode: int
    size: int
    modified: int
    identity: str = ""

    @property
    def is_folder(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_regular(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.mode)

    @property
    def st_mode(self) -> int:
        """As in `os.stat_result`, as the next two: for `files.describe`."""
        return self.mode

    @property
    def st_size(self) -> int:
        """Bytes."""
        return self.size

    @property
    def st_mtime(self) -> int:
        """Seconds."""
        return self.modified


def found(line: bytes, path: str) -> Status:
    """The line `F ...` about a file. Raises what another one means."""
    match = _FOUND.fullmatch(line)
    if match is None:
        raise refusal(line, path)
    return Status(int(match[1], 16), int(match[2]), int(match[3]), match[4].decode())


_RECORD = re.compile(rb"([0-9a-f]{1,8}) (\d{1,18}) (-?\d{1,18}) (/[^\0]*?)///\n", re.DOTALL)


def records(listing: bytes) -> Iterator[tuple[str, Status]]:
    """Paths and statuses from a listing. Names cannot hold `/`, so that `///` ends a record whatever it is called."""
    at = 0
    while match := _RECORD.match(listing, at):
        at = match.end()
        yield plain(match[4]), Status(int(match[1], 16), int(match[2]), int(match[3]))


def plain(name: bytes) -> str:
    """A path as find gives it below `ROOT/.`, as a path."""
    return os.fsdecode(name).replace("/./", "/", 1)


def ending(listing: bytes) -> tuple[bytes, int | None]:
    """A listing without its last record, which is find's exit code; None when it was cut before that."""
    match = re.search(rb"(?:\A|\n)(\d{1,3})///\n\Z", listing)
    if match is None:
        return listing, None
    return listing[: match.start() + 1] if match.start() else b"", int(match[1])
