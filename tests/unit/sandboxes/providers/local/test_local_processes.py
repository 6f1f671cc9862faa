"""Processes stand still when they are told to, whatever they are doing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxes.providers.local.processes import Process

BUSY = """
print("ready", flush=True)
while True: pass
"""
FORKS = """
import os
print("ready", flush=True)
while True:
    if os.fork() == 0: os._exit(0)
    os.wait()
"""
STARTS_A_CHILD_FOR_EVER = """
import ctypes
libc = ctypes.CDLL(None)
libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
stack = ctypes.create_string_buffer(1 << 20)
VFORK, VM, SIGCHLD = 0x4000, 0x100, 17
print("ready", flush=True)
libc.clone(ctypes.cast(libc.pause, ctypes.c_void_p), ctypes.addressof(stack) + (1 << 19), VFORK | VM | SIGCHLD, None)
"""
"""It waits in the kernel until its child, which has its memory, executes a program: the child never does."""


@pytest.fixture(params=[BUSY, FORKS, STARTS_A_CHILD_FOR_EVER], ids=["busy", "forks", "starts-a-child"])
def program(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", request.param], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield running
        left = [Process.of(int(one)) for one in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()]
        running.kill()
        for child in left:
            assert child is None or child.kill()


def ticks(pid: int) -> int:
    """Time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_process_stands_still_until_it_may_go_on(program: subprocess.Popen[str]) -> None:
    process = Process.of(program.pid)
    assert process is not None
    for _ in range(2):
        assert process.stop()
        used = ticks(process.pid)
        assert process.stop(), "what stands still is no error"
        assert ticks(process.pid) == used
        process.go_on()
    assert process.alive()


def test_what_has_ended_does_not_stand_still() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        process = Process.of(ended.pid)
    assert process is not None
    assert not process.stop()
    process.go_on()
