"""What SDKs before 1.6 ask beside: sandboxes of the first kind, and files through descriptors (`Sandbox.open`).

As far as langchain-modal needs it, so that it can be measured on the same server. The messages of
`ContainerFilesystemExecGetOutput` are not in later SDKs any more: they are described here.
"""

from __future__ import annotations

import secrets
import shlex
import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpclib import GRPCError, Status
from grpclib.const import Cardinality, Handler
from modal_proto import api_pb2

from tests.wire.modal.fleet import Fleet, Result, Sandbox, invalid, missing
from tests.wire.modal.keys import Keys
from tests.wire.modal.process import Process

if TYPE_CHECKING:
    from grpclib.server import Stream

OUTPUT: Final = "ContainerFilesystemExecGetOutput"
PIECE: Final = 1024 * 1024
"""Bytes of a file in one message."""
MISSING: Final = 2
"""ENOENT, as errors of files are numbered."""
_LETTERS: Final = string.ascii_letters + string.digits
_Field = descriptor_pb2.FieldDescriptorProto


def first_id(kind: str) -> str:
    """An id that the SDK takes for one of the first kind: 22 letters and digits."""
    return f"{kind}-{''.join(secrets.choice(_LETTERS) for _ in range(21))}a"


def _message(file: descriptor_pb2.FileDescriptorProto, name: str, **fields: tuple[int, int, int]) -> None:
    made = file.message_type.add(name=name)
    for called, (number, kind, label) in fields.items():
        made.field.add(name=called, number=number, type=kind, label=label)


def _messages() -> tuple[Any, Any]:
    one, many = _Field.LABEL_OPTIONAL, _Field.LABEL_REPEATED
    file = descriptor_pb2.FileDescriptorProto(name="wire_earlier.proto", package="wire.earlier", syntax="proto3")
    _message(file, "Request", exec_id=(1, _Field.TYPE_STRING, one), timeout=(2, _Field.TYPE_FLOAT, one))
    _message(file, "Error", error_code=(1, _Field.TYPE_INT32, one), error_message=(2, _Field.TYPE_STRING, one))
    _message(file, "Batch", output=(1, _Field.TYPE_BYTES, many), eof=(4, _Field.TYPE_BOOL, one))
    file.message_type[-1].field.add(
        name="error", number=2, type=_Field.TYPE_MESSAGE, label=one, type_name=".wire.earlier.Error"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    request, batch = (pool.FindMessageTypeByName(f"wire.earlier.{name}") for name in ("Request", "Batch"))
    return message_factory.GetMessageClass(request), message_factory.GetMessageClass(batch)


Request, Batch = _messages()


@dataclass
class Opened:
    """A file that was opened: for reading, or for writing what is gathered here."""

    sandbox: Sandbox
    path: str
    writes: bool
    written: bytearray = field(default_factory=bytearray)


class Spoken:
    """The methods that are spoken besides; those of `control.Spoken` are not repeated here."""

    def __init__(self, fleet: Fleet, keys: Keys, url: str) -> None:
        self._fleet, self._keys, self._url = fleet, keys, url
        self._files: dict[str, Opened] = {}
        self._outputs: dict[str, list[Any]] = {}

    async def SandboxCreate(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        ids = first_id("sb"), first_id("ta")
        made = await self._fleet.create(asked.app_id, asked.definition, {}, {}, ids)
        metadata = api_pb2.SandboxHandleMetadata(result=made.result, app_id=made.app_id)
        await stream.send_message(api_pb2.SandboxCreateResponse(sandbox_id=made.id, metadata=metadata))

    async def SandboxGetTaskId(self, stream: Stream[Any, Any]) -> None:
        found = self._fleet.sandbox((await _asked(stream)).sandbox_id)
        await stream.send_message(api_pb2.SandboxGetTaskIdResponse(task_id=found.task_id))

    async def TaskGetCommandRouterAccess(self, stream: Stream[Any, Any]) -> None:
        jwt = self._keys.for_task(self._fleet.task((await _asked(stream)).task_id).task_id)
        await stream.send_message(api_pb2.TaskGetCommandRouterAccessResponse(url=self._url, jwt=jwt))

    async def SandboxTerminate(self, stream: Stream[Any, Any]) -> None:
        found = self._fleet.sandbox((await _asked(stream)).sandbox_id)
        await self._fleet.end(found, Result(status=Result.GENERIC_STATUS_TERMINATED))
        await stream.send_message(api_pb2.SandboxTerminateResponse())

    async def ContainerFilesystemExec(self, stream: Stream[Any, Any]) -> None:
        asked = await _asked(stream)
        kind = asked.WhichOneof("file_exec_request_oneof")
        exec_id = secrets.token_hex(8)
        told = getattr(asked, kind) if kind else None
        if kind == "file_open_request":
            descriptor = secrets.token_hex(4)
            self._outputs[exec_id] = await self._open(descriptor, self._fleet.task(asked.task_id), told)
            await stream.send_message(api_pb2.ContainerFilesystemExecResponse(exec_id=exec_id, file_descriptor=descriptor))
            return
        if kind not in ("file_read_request", "file_write_request", "file_flush_request", "file_close_request"):
            raise GRPCError(Status.UNIMPLEMENTED, f"this server does not speak {kind}")
        if told.file_descriptor not in self._files:
            raise missing("File", told.file_descriptor)
        self._outputs[exec_id] = await self._done(kind, told)
        await stream.send_message(api_pb2.ContainerFilesystemExecResponse(exec_id=exec_id))

    async def _open(self, descriptor: str, sandbox: Sandbox, asked: Any) -> list[Any]:
        if asked.mode not in ("rb", "wb"):
            raise invalid(f"this server opens files as rb and wb, not as {asked.mode!r}")
        path, writes = asked.path, asked.mode == "wb"
        name = shlex.quote(path)
        look = await _run(sandbox, f"test -f {name} || {{ {'test -d $(dirname ' + name + ')' if writes else 'false'}; }}")
        if await look.ended:
            return [Batch(error={"error_code": MISSING, "error_message": f"no such file: {path}"})]
        self._files[descriptor] = Opened(sandbox, path, writes)
        return []

    async def _done(self, kind: str, asked: Any) -> list[Any]:
        opened = self._files[asked.file_descriptor]
        if kind == "file_read_request":
            process = await _run(opened.sandbox, f"cat {shlex.quote(opened.path)}")
            return [Batch(output=[piece]) async for piece in process.stdout.pieces(0)]
        if kind == "file_write_request":
            opened.written += asked.data
        elif kind == "file_close_request":
            del self._files[asked.file_descriptor]
            if opened.writes:
                await _write(opened)
        return []

    async def output(self, stream: Stream[Any, Any]) -> None:
        """`ContainerFilesystemExecGetOutput`."""
        for batch in self._outputs.pop((await _asked(stream)).exec_id, []):
            await stream.send_message(batch)
        await stream.send_message(Batch(eof=True))

    def handlers(self) -> dict[str, Handler]:
        """What no base class of the SDK's has a place for."""
        return {f"/modal.client.ModalClient/{OUTPUT}": Handler(self.output, Cardinality.UNARY_STREAM, Request, Batch)}


async def _write(opened: Opened) -> None:
    process = await _run(opened.sandbox, f"cat > {shlex.quote(opened.path)}")
    await process.feed(0, bytes(opened.written), True)
    await process.ended


async def _run(sandbox: Sandbox, script: str) -> Process:
    return await sandbox.machine.run(["/bin/sh", "-c", script], {}, None)


async def _asked(stream: Stream[Any, Any]) -> Any:
    message = await stream.recv_message()
    if message is None:
        raise invalid("the request has no message")
    return message
