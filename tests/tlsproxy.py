"""The Docker engine of this machine behind TLS that asks for a client's certificate.

`python -m tests.tlsproxy FOLDER [HOST PORT]` prints its port. The folder has `ca.pem`, `cert.pem` and `key.pem`. It is a
process of its own, so that its end takes every connection along.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path

SOCKET = "/var/run/docker.sock"
PIECE = 65536


async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Until one side has gone."""
    try:
        while piece := await source.read(PIECE):
            target.write(piece)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()


async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection to the engine for each that comes."""
    engine_reader, engine_writer = await asyncio.open_unix_connection(SOCKET)
    await asyncio.gather(pass_on(reader, engine_writer), pass_on(engine_reader, writer))


async def main(folder: Path, host: str = "127.0.0.1", port: str = "0") -> None:
    """Serve until the process is ended."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    context.load_verify_locations(folder / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    server = await asyncio.start_server(connect, host, int(port), ssl=context)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
