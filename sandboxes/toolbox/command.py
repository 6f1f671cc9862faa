"""A command behind the toolbox: all of its state is in the sandbox, so that this object can be made again by its id."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sandboxes.errors import ProtocolError, SandboxError
from sandboxes.sandbox import CommandResult, OutputChunk
from sandboxes.toolbox.client import Refusal, ToolboxClient
from sandboxes.toolbox.helper import wire
from sandboxes.toolbox.replies import command_result


class ToolboxCommand:
    """See `sandboxes.sandbox.Command`."""

    def __init__(self, client: ToolboxClient, call_id: str) -> None:
        self.call_id = call_id
        self._client = client
        self._result: CommandResult | None = None
        self._sent = 0

    async def output(self, *, stdout: int = 0, stderr: int = 0) -> AsyncIterator[OutputChunk]:
        """See `Command`. One request brings what is new, or waits for it."""
        while True:
            try:
                reply = await self._client.call("poll", key=self.call_id, out=stdout, err=stderr, deadline=None)
            except Refusal as exc:
                raise SandboxError(f"the output of command {self.call_id} is gone: {exc.message}") from exc
            length = reply.get("out", int)
            if length > len(reply.payload):
                raise ProtocolError("the sandbox's helper announced more output than it sent")
            first, second = reply.payload[:length], reply.payload[length:]
            if first:
                yield OutputChunk("stdout", stdout, first)
            if second:
                yield OutputChunk("stderr", stderr, second)
            stdout, stderr = stdout + len(first), stderr + len(second)
            done = reply.maybe("done", dict)
            if done is not None:
                self._result = command_result(done)
                return

    async def wait(self) -> CommandResult:
        """See `Command`."""
        if self._result is None:
            try:
                reply = await self._client.call("wait", key=self.call_id, deadline=None)
            except Refusal as exc:
                raise SandboxError(f"command {self.call_id} is not known any more: {exc.message}") from exc
            self._result = command_result(reply.fields)
        return self._result

    async def send(self, data: bytes, *, eof: bool = False) -> None:
        """See `Command`. Raises `BrokenPipeError` when the command has closed its stdin, or ended."""
        pieces = [data[at : at + wire.PIECE] for at in range(0, len(data), wire.PIECE)] or [b""]
        for index, piece in enumerate(pieces):
            last = eof and index == len(pieces) - 1
            reply = await self._client.call(
                "input", piece, key=self.call_id, offset=self._sent, eof=last, deadline=None
            )
            self._sent += len(piece)
            if not reply.get("taken", bool):
                raise BrokenPipeError(f"command {self.call_id} does not read its stdin any more")

    async def kill(self) -> None:
        """See `Command`."""
        await self._client.call("kill", key=self.call_id)
