"""The Docker engine, asked without threads: what the wire server's machines are made with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import httpx

SOCKET: Final = "/var/run/docker.sock"
REQUEST_SECONDS: Final = 60.0
HEAD_CAP: Final = 64 * 1024
"""Bytes that the head of an answer has at most."""


class EngineError(Exception):
    """The engine refused; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Engine:
    """One engine on this machine. Lives on the running loop."""

    def __init__(self) -> None:
        transport = httpx.AsyncHTTPTransport(uds=SOCKET, limits=httpx.Limits(max_connections=None))
        self._http = httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=REQUEST_SECONDS)

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, str] | None = None,
        seconds: float | None = REQUEST_SECONDS,
    ) -> Any:
        """The answer, as JSON where there is one. Raises `EngineError`."""
        answer = await self._http.request(method, path, json=body, params=params, timeout=seconds)
        if answer.is_error:
            raise EngineError(answer.status_code, answer.text)
        return json.loads(answer.content) if answer.content else None

    async def build(self, context: bytes, params: Mapping[str, str], seconds: float) -> list[dict[str, Any]]:
        """What the build of an image says, piece by piece. Raises `EngineError`."""
        headers = {"Content-Type": "application/x-tar"}
        answer = await self._http.post("/build", content=context, params=params, headers=headers, timeout=seconds)
        if answer.is_error:
            raise EngineError(answer.status_code, answer.text)
        return [json.loads(line) for line in answer.text.splitlines() if line]

    async def stream(self, path: str, body: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The raw stream of an exec that is started by this request."""
        reader, writer = await asyncio.open_unix_connection(SOCKET)
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
        answer = await reader.readuntil(b"\r\n\r\n")
        status = int(answer.split(maxsplit=2)[1])
        if status != 101:
            said = await reader.read(HEAD_CAP)
            writer.close()
            raise EngineError(status, said.decode(errors="replace"))
        return reader, writer

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
