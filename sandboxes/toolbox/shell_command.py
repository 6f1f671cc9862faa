"""A command over plain exec: a folder in the sandbox holds its output and how it ended, so that anybody can come back to it."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from sandboxes.errors import ProtocolError, SandboxError
from sandboxes.sandbox import CommandResult, CommandSpec, OutputChunk
from sandboxes.toolbox.helper import spool
from sandboxes.toolbox.helper.processes import ARGUMENT_CAP, COOKIE
from sandboxes.toolbox.shell_wire import Channel, body, refusal, script

POLL_SECONDS: Final = 20
"""How long one script waits for news of a command."""
POLL_DEADLINE: Final = 120.0
SEND_SECONDS: Final = 3600.0
"""How long a command may leave its stdin unread before `send` gives up."""
SEND_PIECE: Final = 4 * 1024 * 1024
WINDOW: Final = 1024 * 1024
_BLOCK = 512
_LIMIT = '[ "${FANFOLD_PIDS:-0}" = 0 ] || ulimit -u "$FANFOLD_PIDS" 2>/dev/null || ulimit -p "$FANFOLD_PIDS" 2>/dev/null'
"""How many processes a command may have, where its sandbox says so to our scripts, which are not limited themselves."""
_STATE = re.compile(rb"P (-|\d{1,3}) ([01]) (\d{1,18}) (\d{1,18}) (\d{1,18}) (\d{1,18}) (\d{1,18})")


@dataclass(frozen=True)
class Polled:
    """News of a command: `result` once it has ended, how much output there is, and a window of it."""

    result: CommandResult | None
    out: int
    err: int
    stdout: bytes
    stderr: bytes


def folder_name(call_id: str) -> str:
    """A call id as the name of its folder, and as the mark of its processes."""
    return hashlib.sha256(call_id.encode("utf-8", "surrogateescape")).hexdigest()[:24]


class ShellCommand:
    """See `sandboxes.sandbox.Command`."""

    def __init__(self, channel: Channel, call_id: str) -> None:
        self.call_id = call_id
        self._channel = channel
        self._name = folder_name(call_id)
        self._sent = 0

    @property
    def output_file(self) -> str:
        """The file in the sandbox that holds its stdout."""
        return f"{self._channel.state}/calls/{self._name}/out.out"

    async def begin(self, spec: CommandSpec, cwd: str, *, window: int = 0, wait: int = 0) -> Polled:
        """Start it unless that was done, and poll for its end for about `wait` seconds."""
        launch = launcher(spec, cwd, self._name, f"{self._channel.state}/calls/{self._name}")
        args = (
            self._name,
            "-" if spec.timeout is None else f"{spec.timeout:.3f}",
            int(spec.stdin),
            int(spec.merge),
            spool.CAP // _BLOCK,
            len(launch),
            script("tree", "supervise"),
            *(0, 0, window, "end", wait),
        )
        answer = await self._channel.call(
            "start", "poll", args=args, stdin=launch, cap=2 * window, seconds=POLL_DEADLINE
        )
        if answer.startswith(b"E stuck"):
            raise SandboxError("the sandbox could not start a command: is its disk full, or its process limit reached?")
        return _polled(answer, 2 * window)

    async def poll(self, stdout: int, stderr: int, *, window: int, wait_for: str, wait: int = POLL_SECONDS) -> Polled:
        """News of it from these offsets; see `scripts/poll.sh`."""
        args = (self._name, stdout, stderr, window, wait_for, wait)
        answer = await self._channel.call("poll", args=args, cap=2 * window, seconds=POLL_DEADLINE)
        if answer == b"E unknown\n":
            raise SandboxError(f"no command was started under the id {self.call_id!r} in this sandbox")
        return _polled(answer, 2 * window)

    async def known(self) -> bool:
        """Whether a command was started under this id."""
        answer = await self._channel.call("poll", args=(self._name, 0, 0, 0, "end", 0))
        return answer != b"E unknown\n"

    async def output(self, *, stdout: int = 0, stderr: int = 0) -> AsyncIterator[OutputChunk]:
        """See `Command`."""
        while True:
            news = await self.poll(stdout, stderr, window=WINDOW, wait_for="news")
            if news.stdout:
                yield OutputChunk("stdout", stdout, news.stdout)
            if news.stderr:
                yield OutputChunk("stderr", stderr, news.stderr)
            stdout, stderr = stdout + len(news.stdout), stderr + len(news.stderr)
            if news.result is not None and stdout >= news.out and stderr >= news.err:
                return

    async def wait(self) -> CommandResult:
        """See `Command`."""
        while True:
            news = await self.poll(0, 0, window=0, wait_for="end")
            if news.result is not None:
                return news.result

    async def tail(self, length: int) -> bytes:
        """The end of its stdout, also when that was too long to be kept."""
        return body(await self._channel.call("tail", args=(self._name, length)), self.call_id)

    async def send(self, data: bytes, *, eof: bool = False) -> None:
        """See `Command`. Raises `BrokenPipeError` when the command has closed its stdin, or ended."""
        pieces = [data[at : at + SEND_PIECE] for at in range(0, len(data), SEND_PIECE)] or [b""]
        for index, piece in enumerate(pieces):
            last = eof and index == len(pieces) - 1
            args = (self._name, self._sent, len(piece), int(last))
            answer = await self._channel.call("send", args=args, stdin=piece, seconds=SEND_SECONDS)
            if answer == b"E closed\n":
                raise BrokenPipeError(f"command {self.call_id} does not read its stdin any more")
            body(answer, self.call_id)
            self._sent += len(piece)

    async def kill(self) -> None:
        """See `Command`."""
        await self._channel.call("tree", "stop", args=(self._name, 0))

    async def forestall(self) -> None:
        """Kill it, or keep it from starting: for a start of which nobody waits for the answer any more."""
        await self._channel.call("tree", "stop", args=(self._name, 1))


def _polled(answer: bytes, cap: int) -> Polled:
    line, _, rest = answer.partition(b"\n")
    match = _STATE.fullmatch(line)
    if match is None:
        meant = refusal(line, "the command")
        if isinstance(meant, SandboxError):
            raise meant
        raise SandboxError(f"the sandbox cannot run commands: {meant}") from meant
    late, lost, out, err, first, second = (int(number) for number in match.groups()[1:])
    if len(rest) != first + second or len(rest) > cap:
        raise ProtocolError("a script in the sandbox announced another length of output than it sent")
    result = None if match[1] == b"-" else CommandResult(int(match[1]), bool(late), lost)
    return Polled(result, out, err, rest[:first], rest[first:])


def launcher(spec: CommandSpec, cwd: str, name: str, folder: str) -> bytes:
    """The script that becomes the command: it notes its process, goes to its folder and takes its environment."""
    words = [spec.command] if isinstance(spec.command, str) else spec.command
    trouble = f"cannot start working directory '{cwd}': No such file or directory"
    if any("\0" in one for one in (*words, *spec.env, *spec.env.values())):
        trouble, cwd = "Error: the command has a NUL byte", "/dev/null/nowhere"
    lines = [
        f'echo "$$" >{folder}/pid',
        'PATH=$FANFOLD_PATH LC_ALL=${FANFOLD_LOCALE#set:}',
        '[ -n "$FANFOLD_LOCALE" ] || unset LC_ALL',
        f"cd -- {shlex.quote(cwd)} 2>/dev/null || {{ echo {shlex.quote(trouble)}; exit 126; }}",
        f"{_LIMIT} || {{ echo 'cannot limit the processes of a command'; exit 126; }}",
        "unset OLDPWD FANFOLD_PATH FANFOLD_LOCALE FANFOLD_PIDS",
    ]
    if isinstance(spec.command, str) and len(os.fsencode(spec.command)) > ARGUMENT_CAP:
        # Too long for an argument of any program, but not of the shell's own `printf`.
        lines.append(f"printf %s {shlex.quote(spec.command)} >{folder}/script")
        program = f"/bin/sh {folder}/script"
    elif isinstance(spec.command, str):
        program = f"/bin/sh -c -- {shlex.quote(spec.command)}"
    else:
        program = " ".join(["/bin/sh", "-c", shlex.quote('exec "$@"'), "sh", *map(shlex.quote, spec.command)])
    environment = " ".join(shlex.quote(f"{key}={value}") for key, value in {**spec.env, COOKIE: name}.items())
    lines.append(f"exec env {environment} {program}\n")
    return os.fsencode("\n".join(lines))
