"""The task command router: commands in a running sandbox, and copies of its files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message
from grpclib import GRPCError, Status
from modal_proto import task_command_router_pb2 as sr_pb2

from tests.wire.modal.engine import EngineError
from tests.wire.modal.fleet import Fleet, Sandbox, invalid, missing
from tests.wire.modal.keys import Keys
from tests.wire.modal.process import Gap, Process

if TYPE_CHECKING:
    from grpclib.server import Stream


class Spoken:
    """The methods that are spoken; `services.complete` makes a service of it."""

    def __init__(self, fleet: Fleet, keys: Keys) -> None:
        self._fleet = fleet
        self._keys = keys
        self._killing: set[asyncio.Task[None]] = set()

    async def TaskExecStart(self, stream: Stream[Any, Any]) -> None:
        asked, sandbox = await self._asked(stream)
        if asked.HasField("pty_info") or asked.container_id:
            raise GRPCError(Status.UNIMPLEMENTED, "this server has neither terminals nor sidecars")
        if not asked.command_args:
            raise invalid("there is no command")
        if asked.exec_id not in sandbox.processes:  # else it was started, and the answer was lost
            env = {key: value for source in asked.secret_sources for key, value in source.env.contents.items()}
            try:
                process = await sandbox.machine.run(list(asked.command_args), env, asked.workdir or None)
            except EngineError as exc:
                raise missing("Task", asked.task_id) from exc
            sandbox.processes[asked.exec_id] = process
            if asked.timeout_secs:
                self._spawn(_kill_late(process, asked.timeout_secs))
        await stream.send_message(sr_pb2.TaskExecStartResponse())

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._killing.add(task)
        task.add_done_callback(self._killing.discard)

    async def TaskExecStdioRead(self, stream: Stream[Any, Any]) -> None:
        asked, sandbox = await self._asked(stream)
        process = _process(sandbox, asked)
        errors = asked.file_descriptor == sr_pb2.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR
        try:
            async for piece in (process.stderr if errors else process.stdout).pieces(asked.offset):
                await stream.send_message(sr_pb2.TaskExecStdioReadResponse(data=piece))
        except IndexError as exc:
            raise GRPCError(Status.DATA_LOSS, str(exc)) from exc
        if not sandbox.runs:
            raise missing("Task", asked.task_id)

    async def TaskExecStdinWrite(self, stream: Stream[Any, Any]) -> None:
        asked, sandbox = await self._asked(stream)
        await _feed(_process(sandbox, asked), asked.offset, asked.data, asked.eof)
        await stream.send_message(sr_pb2.TaskExecStdinWriteResponse())

    async def TaskExecStdinWriteStream(self, stream: Stream[Any, Any]) -> None:
        first = await stream.recv_message()
        if first is None or first.WhichOneof("payload") != "start":
            raise invalid("the first message has to be a start")
        process = _process(self._authorized(stream, first.start), first.start)
        offset = first.start.offset
        async for message in stream:
            kind = message.WhichOneof("payload")
            await _feed(process, offset, message.data, kind == "end")
            offset += len(message.data)
        await stream.send_message(sr_pb2.TaskExecStdinWriteStreamResponse())

    async def TaskExecStdinStatus(self, stream: Stream[Any, Any]) -> None:
        asked, sandbox = await self._asked(stream)
        process = _process(sandbox, asked)
        await stream.send_message(sr_pb2.TaskExecStdinStatusResponse(num_bytes_written=process.written, closed=process.closed))

    async def TaskExecWait(self, stream: Stream[Any, Any]) -> None:
        asked, sandbox = await self._asked(stream)
        code = await asyncio.shield(_process(sandbox, asked).ended)
        await stream.send_message(sr_pb2.TaskExecWaitResponse(code=code))

    async def TaskExecPoll(self, stream: Stream[Any, Any]) -> None:
        asked, sandbox = await self._asked(stream)
        ended = _process(sandbox, asked).ended
        done = {"code": ended.result()} if ended.done() else {}
        await stream.send_message(sr_pb2.TaskExecPollResponse(**done))

    async def TaskSnapshotFilesystem(self, stream: Stream[Any, Any]) -> None:
        asked, sandbox = await self._asked(stream)
        try:
            image_id = await self._fleet.copy(sandbox, asked.snapshot_id, asked.ttl_seconds)
        except EngineError as exc:
            raise missing("Task", asked.task_id) from exc
        await stream.send_message(sr_pb2.TaskSnapshotFilesystemResponse(image_id=image_id))

    async def _asked(self, stream: Stream[Any, Any]) -> tuple[Any, Sandbox]:
        message = await stream.recv_message()
        if message is None:
            raise invalid("the request has no message")
        return message, self._authorized(stream, message)

    def _authorized(self, stream: Stream[Any, Any], message: Message) -> Sandbox:
        """The sandbox that this message is for, which its bearer must have the token of."""
        task_id: str = message.task_id  # type: ignore[attr-defined]
        if self._keys.task_of(stream.metadata or {}) != task_id:
            raise GRPCError(Status.UNAUTHENTICATED, "this token is another task's")
        return self._fleet.task(task_id)


async def _kill_late(process: Process, seconds: int) -> None:
    await asyncio.wait([process.ended], timeout=seconds)
    await process.kill()


def _process(sandbox: Sandbox, asked: Any) -> Process:
    if asked.exec_id not in sandbox.processes:
        raise missing("Exec", asked.exec_id)
    return sandbox.processes[asked.exec_id]


async def _feed(process: Process, offset: int, data: bytes, eof: bool) -> None:
    try:
        await process.feed(offset, data, eof)
    except Gap as exc:
        raise GRPCError(Status.OUT_OF_RANGE, str(exc)) from exc
