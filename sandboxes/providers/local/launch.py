"""Starting bubblewrap so that the sandbox outlives whoever starts it, and trying whether it can be started at all."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from sandboxes.errors import SandboxError
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.local import cgroups, jail, system
from sandboxes.providers.local.processes import Process
from sandboxes.providers.local.removal import remove_tree

START_SECONDS = 60.0
"""How long a new sandbox may take to answer."""
UNCLAIMED_SECONDS = 60.0
"""After which a sandbox ends that nobody ever connected to: who made it was killed in the middle."""


def helper_command(spec: SandboxSpec, listen_fd: int) -> list[str]:
    """The helper's command line in the sandbox."""
    command = [system.python(spec.rootfs), "-I", "-S", "-B", jail.TOOLBOX]
    command += ["serve", "--listen-fd", str(listen_fd), "--state", jail.STATE, "--workdir", spec.workdir]
    command += ["--lifetime", str(spec.lifetime), "--idle", str(spec.idle_timeout or 0)]
    command += ["--unclaimed", str(UNCLAIMED_SECONDS), "--namespace"]
    if spec.resources.disk is None:
        command += ["--upper", jail.UPPER]
    if spec.resources.pids is not None:
        command += ["--limit", f"NPROC={spec.resources.pids}"]
    if spec.resources.memory is not None and not cgroups.usable():
        command += ["--limit", f"AS={spec.resources.memory}"]
    return command


def launch(
    layout: jail.Layout,
    arguments: list[str],
    helper: list[str],
    listener: socket.socket,
    bwrap: Path,
    owner: int | None,
    name: str,
) -> None:
    """Start bubblewrap, detached from this process; the helper is held back until its limits are set.

    Bubblewrap holds both ends of its status pipe: without a reader, one whose maker is killed dies of writing to it, and leaves
    the process that it has started waiting for ever.
    """
    status_read, status_write = os.pipe()
    block_read, block_write = os.pipe()
    status = ["--json-status-fd", str(status_write), "--sync-fd", str(status_read)]
    arguments = [*arguments, *status, "--block-fd", str(block_read)]
    try:
        with (layout / "log").open("wb") as log, _hidden(arguments) as hidden:
            command = ["./bwrap", "--args", str(hidden), "--", *helper]
            inherited = (listener.fileno(), status_read, status_write, block_read, hidden)
            # The shell leaves at once: whoever reaps orphans reaps the sandbox, however long we live.
            subprocess.run(
                ["/bin/sh", "-c", '"$@" & ', "sh", *command],
                pass_fds=inherited,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                check=True,
                **surroundings(bwrap, owner),
            )
        os.close(status_write)
        status_write = -1
        process = _first_process(status_read)
        if cgroups.usable():
            cgroups.join(name, process.pid)
        # Recorded before it may begin: whoever destroys the sandbox knows what to kill.
        (layout / "process.json").write_text(json.dumps({"pid": process.pid, "started": process.started}))
        os.write(block_write, b"!")
    finally:
        for descriptor in (status_read, status_write, block_read, block_write):
            if descriptor >= 0:
                os.close(descriptor)


def surroundings(bwrap: Path, owner: int | None) -> dict[str, Any]:
    """How bubblewrap is started, as arguments of `subprocess.run`: as whom, and with nothing of this process."""
    groups: list[int] | None = None if owner is None else []
    return {"cwd": bwrap, "env": {}, "user": owner, "group": owner, "extra_groups": groups, "timeout": START_SECONDS}


@contextlib.contextmanager
def _hidden(arguments: list[str]) -> Iterator[int]:
    """Arguments as a file: on bubblewrap's own command line the sandbox could read this machine's paths."""
    descriptor = os.memfd_create("arguments")
    try:
        os.write(descriptor, b"".join(os.fsencode(one) + b"\0" for one in arguments))
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _first_process(status: int) -> Process:
    """The sandbox's first process, whose death ends all others, from bubblewrap's status pipe."""
    with os.fdopen(os.dup(status), "rb") as lines:
        for line in lines:
            pid = json.loads(line).get("child-pid")
            process = Process.of(pid) if isinstance(pid, int) else None
            if process is not None:
                return process
    raise SandboxError("bubblewrap ended before the sandbox began")


def probe(shared: str, bwrap: Path, owner: int | None) -> str:
    """Try a whole sandbox, until one could be made; what bubblewrap complains of, or nothing."""
    try:
        _try_one(shared, bwrap, owner)
    except _CannotBeMade as exc:
        return str(exc)
    return ""


class _CannotBeMade(Exception):
    """Why no sandbox could be made this time: it may be so no longer the next time, and is not kept in mind."""


@cache
def _try_one(shared: str, bwrap: Path, owner: int | None) -> None:
    # Several threads may try at once: each has a place of its own.
    layout = jail.Layout(Path(shared) / f"probe-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        done = _tried(layout, shared, bwrap, owner)
    except OSError as exc:
        raise _CannotBeMade(str(exc)) from exc
    if done.returncode != 0:
        raise _CannotBeMade(done.stderr.strip() or f"exit code {done.returncode}")


def _tried(layout: jail.Layout, shared: str, bwrap: Path, owner: int | None) -> subprocess.CompletedProcess[str]:
    """How a sandbox ended in which nothing was done."""
    try:
        layout.make(owner)
        jail.write_etc(layout, 1000, 1000)
        arguments = jail.arguments(SandboxSpec(), layout, Path(shared), None)
        return subprocess.run(
            ["./bwrap", *arguments, "--", "/bin/true"],
            capture_output=True,
            text=True,
            check=False,
            **surroundings(bwrap, owner),
        )
    finally:
        remove_tree(layout.folder)
