"""A client of a sandbox in another process, fed on stdin.

It makes the provider again from a pickled factory, attaches to a sandbox by its JSON handle, and does one thing. It is what
the checks kill in the middle.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandboxes.providers.base import SandboxHandle, SandboxProvider
from sandboxes.sandbox import CommandSpec, Edit, FileEntry, Sandbox
from sandboxes.testing.conformance.base import ProviderFactory
from sandboxes.toolbox.calls import call_scope


@dataclass(frozen=True)
class Job:
    """What the other process has to do with the sandbox of this handle: `start`, `execute`, `apply`, `read`, `fork`
    or `snapshot`."""

    handle: Mapping[str, Any]
    what: str
    arguments: Mapping[str, str]


async def begin(provider_factory: ProviderFactory, job: Job) -> asyncio.subprocess.Process:
    """Start the other process; its stdout can be read."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"from {__name__} import main; main()",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(sys.path).encode() + b"\n" + pickle.dumps((provider_factory, job)))
    await process.stdin.drain()
    process.stdin.close()
    return process


async def perform(provider: SandboxProvider, job: Job) -> None:
    """Do the job and say what came of it on stdout."""
    if job.what in ("fork", "snapshot"):
        return await _divide(provider, job)
    sandbox = await provider.attach(SandboxHandle.from_json(job.handle))
    try:
        say(await _ask(sandbox, job))
    finally:
        await sandbox.aclose()
        await provider.aclose()


async def _divide(provider: SandboxProvider, job: Job) -> None:
    """Fork the sandbox into some, or keep its files, under the labels that are the job's arguments."""
    say("begun")
    handle = SandboxHandle.from_json(job.handle)
    if job.what == "fork":
        await provider.fork(handle, 3, labels=job.arguments)
    else:
        await provider.snapshot(handle, job.arguments)
    say("done")


async def _ask(sandbox: Sandbox, job: Job) -> str:
    if job.what == "start":
        command = await sandbox.start(CommandSpec(job.arguments["command"]), call_id=job.arguments["call_id"])
        say("started")
        return str((await command.wait()).exit_code)
    if job.what == "execute":
        with call_scope(job.arguments["scope"]):
            return (await sandbox.aexecute(job.arguments["command"])).output
    if job.what == "apply":
        return await _apply(sandbox, job.arguments["root"], job.arguments["call_id"])
    read = await sandbox.aread(job.arguments["path"])
    return json.dumps({"content": read.file_data["content"] if read.file_data else read.error, "pid": os.getpid()})


async def _apply(sandbox: Sandbox, root: str, call_id: str) -> str:
    """Give each file below a folder the content `new`."""
    blob = hashlib.sha1(b"blob 3\0new", usedforsecurity=False).hexdigest()
    files = await sandbox.manifest(root)
    say("begun")
    edits = [Edit(one.path, one, FileEntry(one.path, "100644", 3, blob)) for one in files]
    return str(await sandbox.apply(root, edits, lambda blob: b"new", call_id=call_id))


def say(line: str) -> None:
    """One line on stdout, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read where modules are, the factory and the job from stdin, and do it."""
    sys.path[:] = json.loads(sys.stdin.buffer.readline())
    factory, job = pickle.load(sys.stdin.buffer)
    asyncio.run(perform(factory(), job))


if __name__ == "__main__":
    main()
