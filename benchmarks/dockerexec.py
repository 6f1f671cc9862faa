"""The peer of `toolbox.py`: deepagents' `BaseSandbox` over `docker exec`, as little as it asks for.

Everything goes through the Docker SDK's exec, files one after the other, as the protocol of deepagents has it (each file
succeeds or fails by itself). `put` and `get` are what a more careful subclass could do: the engine's archives. It works on the
container that ours works on.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import socket
import tarfile
from typing import Any

import docker
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

WORKDIR = "/workspace"


class DockerExecSandbox(BaseSandbox):
    """A container's files and commands. Paths of uploads are below `WORKDIR`: the rest of the container is read-only."""

    def __init__(self, container: str) -> None:
        self._client = docker.from_env()
        self._container = self._client.containers.get(container)
        uid, _, gid = self._container.attrs["Config"]["User"].partition(":")
        self._uid, self._gid = int(uid or 0), int(gid or uid or 0)

    @property
    def id(self) -> str:
        """The container's."""
        return str(self._container.id)

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run it with `sh -c`; `timeout` is not enforced."""
        code, output = self._container.exec_run(["sh", "-c", command], workdir=WORKDIR)
        assert isinstance(output, bytes)  # it is a stream only when one is asked for
        return ExecuteResponse(output.decode(errors="replace"), code)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """One exec for each file."""
        return [self._upload(path, content) for path, content in files]

    def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        name = shlex.quote(path)
        api = self._client.api
        command = ["sh", "-c", f"mkdir -p $(dirname {name}) && cat > {name}"]
        started = api.exec_create(self.id, command, stdin=True)["Id"]
        stream: Any = api.exec_start(started, socket=True)
        with contextlib.closing(stream._response):
            stream._sock.sendall(content)
            stream._sock.shutdown(socket.SHUT_WR)
            while stream._sock.recv(4096):
                pass
        return FileUploadResponse(path, None if api.exec_inspect(started)["ExitCode"] == 0 else "failed")

    def put(self, files: list[tuple[str, bytes]]) -> None:
        """All of them in one archive."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path, content in files:
                entry = tarfile.TarInfo(path.removeprefix(f"{WORKDIR}/"))
                entry.size, entry.uid, entry.gid = len(content), self._uid, self._gid
                archive.addfile(entry, io.BytesIO(content))
        self._container.put_archive(WORKDIR, packed.getvalue())

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """One exec for each file."""
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        code, output = self._container.exec_run(["cat", path], stderr=False)
        assert isinstance(output, bytes)
        return FileDownloadResponse(path, output) if code == 0 else FileDownloadResponse(path, error="failed")

    def get(self, path: str) -> bytes:
        """A file in an archive."""
        pieces, _ = self._container.get_archive(path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
            member = archive.extractfile(archive.getmembers()[0])
            return member.read() if member else b""

    def close(self) -> None:
        """Let go of the engine."""
        self._client.close()
