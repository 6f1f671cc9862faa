"""Sessions of the toolbox: shells that stay, whose commands come one after the other and are logged to files.

A command that ends its shell (`exit 3`) has the exit code 137 here; on the platform it never gets one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shlex
from typing import Any, Final

from daytona_toolbox_api_client import CreateSessionRequest, SessionExecuteRequest, SessionSendInputRequest
from fastapi import APIRouter, Depends, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse

from tests.wire.daytona.api import authorized, parsed
from tests.wire.daytona.running import Running, started
from tests.wire.daytona.state import Box, Refused, World
from tests.wire.daytona.toolbox import DAEMON, SHELL, home, started_box

LOOK: Final = 0.05
"""Seconds between two looks at a log, or for an exit code: the daemon follows files in this way, too."""
MARKS: Final = {"out": b"\x01\x01\x01", "err": b"\x02\x02\x02"}
"""Before each piece of a stream in a log that is followed."""


class Session:
    """A shell, and the commands that it was given."""

    def __init__(self, box: Box, name: str, running: Running, stdin: int) -> None:
        self.name, self.running, self.commands = name, running, dict[str, str]()
        self._box, self._stdin = box, stdin

    def folder(self, command: str) -> str:
        """Where a command's log is, in the sandbox. Raises `Refused`."""
        if command not in self.commands:
            raise Refused(404, "command not found", source=DAEMON, code="PROCESS_NOT_FOUND")
        return f"/tmp/.daytona/{self.name}/{command}"

    async def run(self, command: str) -> str:
        """Give the shell a command; its id."""
        id_ = secrets.token_hex(8)
        self.commands[id_] = command
        place = shlex.quote(self.folder(id_))
        script = f"mkdir -p {place}; mkfifo {place}/in; {{ {command}\n}} 0<>{place}/in >{place}/out 2>{place}/err\n"
        script += f"echo $? >{place}/code.new; mv {place}/code.new {place}/code\n"
        await asyncio.to_thread(os.write, self._stdin, script.encode())
        return id_

    async def read(self, command: str, name: str, offset: int = 0) -> bytes:
        """A log from an offset on, as far as it is there."""
        with contextlib.suppress(FileNotFoundError):
            descriptor = await asyncio.to_thread(self._box.jail.open, f"{self.folder(command)}/{name}")
            with os.fdopen(descriptor, "rb") as file:
                file.seek(offset)
                return await asyncio.to_thread(file.read)
        return b""

    async def code(self, command: str) -> int | None:
        """A command's exit code; None while it runs."""
        told = await self.read(command, "code")
        if not told and self.running.ended.done():
            return 137
        return int(told) if told else None

    async def close(self) -> None:
        """End the shell, and all that it started."""
        self.running.kill(group=True)
        with contextlib.suppress(OSError):
            os.close(self._stdin)


async def opened(box: Box, name: str) -> Session:
    """A new session."""
    read, write = os.pipe()
    nothing = os.open(os.devnull, os.O_WRONLY)
    running = await started(box.jail, [SHELL], home(box), box.env, [read, nothing, os.dup(nothing)])
    return Session(box, name, running, write)


def routes(world: World, key: str) -> APIRouter:
    """Sessions, for whoever has this key."""
    api = APIRouter(prefix="/toolbox/{id_}/process/session", dependencies=[Depends(authorized(world.faults, key))])

    def session(id_: str, name: str) -> Session:
        found: Session | None = started_box(world, id_).sessions.get(name)
        if found is None:
            raise Refused(404, "session not found", source=DAEMON, code="PROCESS_NOT_FOUND")
        return found

    @api.post("", status_code=201)
    async def create(id_: str, request: Request) -> Response:
        box, name = started_box(world, id_), (await parsed(request, CreateSessionRequest))["sessionId"]
        if name in box.sessions:
            raise Refused(409, "session already exists", source=DAEMON)
        box.sessions[name] = await opened(box, name)
        return Response(status_code=201)

    @api.get("/{name}")
    async def get(id_: str, name: str) -> dict[str, Any]:
        found = session(id_, name)
        commands = [{"id": one, "command": text, "exitCode": await found.code(one)} for one, text in found.commands.items()]
        return {"sessionId": name, "commands": commands}

    @api.delete("/{name}", status_code=204)
    async def delete(id_: str, name: str) -> None:
        await session(id_, name).close()
        del started_box(world, id_).sessions[name]

    @api.post("/{name}/exec")
    async def execute(id_: str, name: str, request: Request) -> JSONResponse:
        found, body = session(id_, name), await parsed(request, SessionExecuteRequest)
        command = await found.run(body["command"])
        if body.get("runAsync") or body.get("async"):
            return JSONResponse({"cmdId": command}, 202)
        while (code := await found.code(command)) is None:  # noqa: ASYNC110 - it is a file that is looked for
            await asyncio.sleep(LOOK)
        return JSONResponse({"cmdId": command, "exitCode": code, **await logs_of(found, command)})

    @api.get("/{name}/command/{command}")
    async def look(id_: str, name: str, command: str) -> dict[str, Any]:
        found = session(id_, name)
        found.folder(command)
        return {"id": command, "command": found.commands[command], "exitCode": await found.code(command)}

    @api.get("/{name}/command/{command}/logs")
    async def logs(id_: str, name: str, command: str) -> dict[str, str]:
        return await logs_of(session(id_, name), command)

    @api.post("/{name}/command/{command}/input", status_code=204)
    async def send(id_: str, name: str, command: str, request: Request) -> None:
        body, found = await parsed(request, SessionSendInputRequest), session(id_, name)
        if await found.code(command) is not None:
            raise Refused(410, "command already completed", source=DAEMON, code="COMMAND_ALREADY_COMPLETED")
        descriptor = await asyncio.to_thread(found._box.jail.open, f"{found.folder(command)}/in", write=True)
        with os.fdopen(descriptor, "wb") as fifo:
            await asyncio.to_thread(fifo.write, body["data"].encode())

    return api


async def logs_of(found: Session, command: str) -> dict[str, str]:
    """What a command has printed so far."""
    out, err = [(await found.read(command, name)).decode("utf-8", "replace") for name in ("out", "err")]
    return {"output": out + err, "stdout": out, "stderr": err}


def followed(world: World, key: str) -> APIRouter:
    """Logs that are followed over a WebSocket."""
    api = APIRouter(prefix="/toolbox/{id_}/process/session")

    @api.websocket("/{name}/command/{command}/logs")
    async def follow(client: WebSocket, id_: str, name: str, command: str) -> None:
        try:
            await authorized(world.faults, key)(client)
            found: Session = started_box(world, id_).sessions[name]
            found.folder(command)
        except (Refused, KeyError) as exc:
            status = exc.status if isinstance(exc, Refused) else 404
            await client.send_denial_response(JSONResponse({"message": str(exc)}, status))
            return
        await client.accept()
        offsets = {"out": 0, "err": 0}
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            while True:
                code = await found.code(command)
                for stream, mark in MARKS.items():
                    if data := await found.read(command, stream, offsets[stream]):
                        offsets[stream] += len(data)
                        await client.send_bytes(mark + data)
                if code is not None:
                    break
                await asyncio.sleep(LOOK)
            await client.close(1000)

    return api
