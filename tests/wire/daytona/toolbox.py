"""The toolbox of a sandbox: commands, terminals and files, below `/toolbox/{id}`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from daytona_toolbox_api_client import ExecuteRequest
from fastapi import APIRouter, Depends, Request, WebSocket
from fastapi.responses import JSONResponse, StreamingResponse

from tests.wire.daytona.api import authorized, parsed
from tests.wire.daytona.jail import HOME
from tests.wire.daytona.running import PIECE, reader_of, started
from tests.wire.daytona.state import Box, Refused, World
from tests.wire.daytona.terminal import Terminal, envs_of

DAEMON: Final = "DAYTONA_DAEMON"
EXECUTE_SECONDS: Final = 360
"""How long a command may take that is given no timeout."""
SHELL: Final = "/bin/bash" if Path("/usr/bin/bash").exists() else "/bin/sh"


def started_box(world: World, id_: str) -> Box:
    """A sandbox whose toolbox answers. Asking is activity."""
    box = world.boxes.get(id_)
    if box is None or box.state == "destroyed":
        raise Refused(404, f"Sandbox with ID {id_} not found", source="DAYTONA_PROXY")
    if box.state not in ("started", "forking", "snapshotting"):
        message = "no IP address found. Is the Sandbox started?"
        raise Refused(400, f"bad request: {message}", source="DAYTONA_PROXY")
    box.active = time.monotonic()
    return box


def home(box: Box) -> str:
    """Where commands start that are given no folder."""
    return "/root" if box.kind.root else HOME


def failed(exc: OSError, path: str) -> Refused:
    """What the daemon says of an error with a file."""
    kinds = {
        errno.ENOENT: (404, "FILE_NOT_FOUND"),
        errno.EACCES: (403, "FILE_ACCESS_DENIED"),
        errno.EPERM: (403, "FILE_ACCESS_DENIED"),
        errno.EISDIR: (400, "INVALID_FILE_PATH"),
        errno.ENOTDIR: (400, "INVALID_FILE_PATH"),
    }
    status, code = kinds.get(exc.errno or 0, (500, "FILE_READ_FAILED"))
    return Refused(status, f"{path}: {exc.strerror}", source=DAEMON, code=code)


def routes(world: World, key: str) -> APIRouter:
    """The toolbox, for whoever has this key."""
    toolbox = APIRouter(prefix="/toolbox/{id_}", dependencies=[Depends(authorized(world.faults, key))])

    @toolbox.post("/process/execute")
    async def execute(id_: str, request: Request) -> dict[str, Any]:
        return await _execute(started_box(world, id_), await parsed(request, ExecuteRequest))

    @toolbox.get("/user-home-dir")
    async def user_home(id_: str) -> dict[str, str]:
        return {"dir": home(started_box(world, id_))}

    @toolbox.get("/work-dir")
    async def work_dir(id_: str) -> dict[str, str]:
        return {"dir": home(started_box(world, id_))}

    @toolbox.post("/files/bulk-upload")
    async def upload(id_: str, request: Request) -> JSONResponse:
        return await _upload(started_box(world, id_), request)

    @toolbox.post("/files/bulk-download")
    async def download(id_: str, request: Request) -> StreamingResponse:
        box = started_box(world, id_)
        paths = (await request.json()).get("paths")
        if not isinstance(paths, list) or not paths:
            raise Refused(400, "request body must be {paths: [ ... ] } and non-empty", source=DAEMON)
        boundary = secrets.token_hex(16)
        media = f"multipart/form-data; boundary={boundary}"
        return StreamingResponse(_parts(box, paths, boundary), media_type=media)

    @toolbox.get("/files")
    async def listing(id_: str, path: str = "") -> list[Any]:
        return list((await _ask(started_box(world, id_), "list", path=path))["files"])

    @toolbox.get("/files/info")
    async def info(id_: str, path: str) -> dict[str, Any]:
        return dict((await _ask(started_box(world, id_), "info", path=path))["info"])

    @toolbox.post("/files/folder", status_code=201)
    async def folder(id_: str, path: str, mode: str) -> None:
        await _ask(started_box(world, id_), "folder", path=path, mode=mode)

    @toolbox.post("/files/move")
    async def move(id_: str, source: str, destination: str) -> None:
        box = started_box(world, id_)
        try:
            ends = {"source": _absolute(box, source), "destination": _absolute(box, destination)}
            await asyncio.to_thread(lambda: box.jail.told("move", **ends))
        except OSError as exc:
            raise failed(exc, source) from exc

    @toolbox.post("/files/permissions")
    async def permit(id_: str, path: str, mode: str = "", owner: str = "", group: str = "") -> None:
        if owner or group or not mode:
            raise Refused(501, "this server changes the mode of a file, and nothing else", source=DAEMON)
        await _ask(started_box(world, id_), "permit", path=path, mode=mode)

    @toolbox.delete("/files", status_code=204)
    async def remove(id_: str, path: str, recursive: bool = False) -> None:
        await _ask(started_box(world, id_), "remove", path=path, recursive=recursive)

    return toolbox


def unspoken(world: World, key: str) -> APIRouter:
    """All other routes: what is not spoken here must not look like a file that is not there."""
    toolbox = APIRouter(prefix="/toolbox/{id_}", dependencies=[Depends(authorized(world.faults, key))])

    @toolbox.api_route("/{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    async def refuse(id_: str, rest: str, request: Request) -> None:
        started_box(world, id_)
        raise Refused(501, f"this server does not speak {request.method} /{rest}", source=DAEMON)

    return toolbox


def terminals(world: World, key: str) -> APIRouter:
    """The terminals of sandboxes."""
    toolbox = APIRouter(prefix="/toolbox/{id_}")

    @toolbox.websocket("/process/pty/create-connect")
    async def connect(client: WebSocket, id_: str, id: str, cols: int = 80, rows: int = 24, cwd: str = "") -> None:
        try:
            await authorized(world.faults, key)(client)
            box = started_box(world, id_)
            if id in box.terminals:
                raise Refused(409, f"PTY session with ID '{id}' already exists", source=DAEMON)
            envs, answered = envs_of(client)
            argv = [SHELL, "-i", "-l"]
            variables = {**box.env, "TERM": "xterm-256color", **envs}
            running = await started(box.jail, argv, cwd or home(box), variables, [], (rows, cols))
        except (Refused, OSError) as exc:
            status = exc.status if isinstance(exc, Refused) else 400
            await client.send_denial_response(JSONResponse({"message": str(exc)}, status))
            return
        await client.accept(answered)
        terminal = box.terminals[id] = Terminal(running, world.faults)

        async def forgotten() -> None:
            await terminal.ended()
            box.terminals.pop(id, None)

        world.begin(forgotten())
        await terminal.serve(client)

    return toolbox


async def _ask(box: Box, op: str, **fields: Any) -> Any:
    path = _absolute(box, str(fields.pop("path")))
    try:
        return await asyncio.to_thread(lambda: box.jail.told(op, path=path, **fields))
    except OSError as exc:
        raise failed(exc, path) from exc


def _absolute(box: Box, path: str) -> str:
    return path if path.startswith("/") else f"{home(box)}/{path}".rstrip("/")


async def _execute(box: Box, body: dict[str, Any]) -> dict[str, Any]:
    """Run a command: stdout and stderr come as one, and nothing of them when it took too long."""
    if not body["command"].strip():
        raise Refused(400, "empty command", source=DAEMON)
    read, write = os.pipe()
    stdin = os.open(os.devnull, os.O_RDONLY)
    argv, env = [SHELL, "-c", body["command"]], {**box.env, **body.get("envs", {})}
    try:
        running = await started(box.jail, argv, body.get("cwd") or home(box), env, [stdin, write, os.dup(write)])
    except OSError as exc:
        os.close(read)
        raise failed(exc, body.get("cwd") or home(box)) from exc
    stream = await reader_of(read)
    timeout = body.get("timeout") or EXECUTE_SECONDS
    try:
        async with asyncio.timeout(timeout):
            output = await stream.read()
            code = await running.ended
    except TimeoutError:
        running.kill(group=False)
        raise Refused(408, "command execution timeout", source=DAEMON, code="PROCESS_EXECUTION_TIMEOUT") from None
    finally:
        box.active = time.monotonic()
        stream._transport.close()  # type: ignore[attr-defined]
    if code is None:
        raise Refused(502, "the sandbox has ended", source="DAYTONA_PROXY")
    return {"exitCode": code, "result": output.decode("utf-8", "replace")}


async def _upload(box: Box, request: Request) -> JSONResponse:
    errors = []
    async with request.form(max_files=10_000, max_fields=10_000) as form:
        for name in [name for name in form if name.endswith(".file")]:
            path = form.get(name.removesuffix(".file") + ".path") or getattr(form[name], "filename", None)
            content: Any = form[name]
            try:
                target = await asyncio.to_thread(box.jail.open, _absolute(box, str(path)), write=True)
                with os.fdopen(target, "wb") as file:
                    while piece := await content.read(1024 * 1024):
                        await asyncio.to_thread(file.write, piece)
            except OSError as exc:
                errors.append(f"{path}: {exc.strerror}")
    return JSONResponse({"errors": errors}, 400) if errors else JSONResponse({})


async def _parts(box: Box, paths: list[str], boundary: str) -> AsyncIterator[bytes]:
    for path in paths:
        quoted = path.replace("\\", "\\\\").replace('"', '\\"')
        try:
            source = await asyncio.to_thread(box.jail.open, _absolute(box, path))
        except OSError as exc:
            head = f'--{boundary}\r\nContent-Disposition: form-data; name="error"; filename="{quoted}"\r\n\r\n'
            yield f"{head}{exc.strerror}\r\n".encode()
            continue
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
        yield f"{head}Content-Type: application/octet-stream\r\n\r\n".encode()
        with os.fdopen(source, "rb") as file, contextlib.suppress(OSError):
            while piece := await asyncio.to_thread(file.read, PIECE * 8):
                yield piece
        yield b"\r\n"
    yield f"--{boundary}--\r\n".encode()
