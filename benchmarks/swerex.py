"""`python -m benchmarks.swerex`: the toolbox in a container beside SWE-ReX, whose server runs on loopback, uncontained."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import container
from benchmarks.measure import Call, Config, Row, compare, need, run

if TYPE_CHECKING:
    from swerex.runtime.remote import RemoteRuntime

ROUNDS = 20
START_SECONDS = 60.0
"""How long its server may take to answer."""
STOP_SECONDS = 10.0
ONE = f"{container.TREE}/part1/file1.py"


async def bench(config: Config) -> list[Row]:
    """Commands and files, each side through its own async client."""
    need("swerex.server", "swe-rex")
    need("swerex.runtime.remote", "swe-rex")
    from swerex.runtime.abstract import Command, ReadFileRequest, WriteFileRequest

    with tempfile.TemporaryDirectory(prefix="fanfold-bench-") as folder:
        text, numbers, path = container.source(1), itertools.count(), f"{folder}/file1.py"
        Path(path).write_text(text)
        async with container.sandbox(config) as (_, ours), _server() as peer:
            pairs: list[tuple[str, float, Call, Call]] = [
                (
                    'execute("true")',
                    1.5,
                    lambda: ours.aexecute("true"),
                    lambda: peer.execute(Command(command="true", shell=True)),
                ),
                ("read 4 KB", 3, lambda: ours.aread(ONE), lambda: peer.read_file(ReadFileRequest(path=path))),
                (
                    "write 4 KB",
                    3,
                    lambda: ours.awrite(f"/workspace/written/{next(numbers)}.py", text),
                    lambda: peer.write_file(WriteFileRequest(path=f"{folder}/{next(numbers)}.py", content=text)),
                ),
            ]
            rounds = config.rounds(ROUNDS)
            return [
                Row(what, "ms", *await compare(mine, its, rounds=rounds, ours_each=10, peer_each=10), target)
                for what, target, mine, its in pairs
            ]


@asynccontextmanager
async def _server() -> AsyncIterator[RemoteRuntime]:
    """SWE-ReX's own server and client, as it ships them; the server ends with the benchmark."""
    from swerex.runtime.remote import RemoteRuntime

    port, token = _free_port(), secrets.token_hex(16)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "swerex.server", "--host", "127.0.0.1", "--port", str(port), "--auth-token", token),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        runtime = RemoteRuntime(host="http://127.0.0.1", port=port, auth_token=token)
        await runtime.wait_until_alive(timeout=START_SECONDS)
        yield runtime
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


BENCH = {"docker: toolbox / SWE-ReX on loopback": bench}

if __name__ == "__main__":
    run(BENCH)
