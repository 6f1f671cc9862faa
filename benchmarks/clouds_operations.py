"""What is done in a sandbox of a cloud, by both sides alike: calls of the protocol that both have, and what they work on.

It is imported in the peers' environment, too, and so needs the standard library alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NEEDLE = "needle"
SMALL = 100
"""Files of 1 KB that are moved at once."""
MEGABYTE = 1_000_000
LARGE = 10 * MEGABYTE
TREE = 100
"""Files of 4 KB, in ten folders."""


@dataclass(frozen=True)
class Operation:
    """One call: the name of the method in its synchronous form, and its arguments."""

    what: str
    method: str
    arguments: tuple[Any, ...]


def text(size: int) -> str:
    """So much of a source file, in lines of 40 characters."""
    lines = (f"value_{number:06} = compute({number:06})  # ...\n" for number in range(size // 40 + 1))
    return "".join(lines)[:size]


def block(size: int) -> bytes:
    """So many bytes that are no text."""
    return bytes(range(256)) * (size // 256) + bytes(size % 256)


def furniture(folder: str) -> str:
    """The command that makes the folders, before anything is counted."""
    return "mkdir -p " + " ".join(f"{folder}/part{number}" for number in range(10))


def files(folder: str) -> list[tuple[str, bytes]]:
    """What is in `folder` before anything is counted."""
    content = text(4000)
    tree = [
        (f"{folder}/part{number % 10}/file{number}.py", (content + (NEEDLE if number % 10 == 0 else "")).encode())
        for number in range(TREE)
    ]
    return [*tree, (f"{folder}/large.txt", text(LARGE).encode()), (f"{folder}/megabyte.txt", text(MEGABYTE).encode())]


def operations(folder: str, turn: int) -> list[Operation]:
    """All that is counted, in order. Each turn writes files of its own."""
    one, new = f"{folder}/part1/file1.py", f"{folder}/new{turn}"
    small = [(f"{new}-{number}", block(1000)) for number in range(SMALL)]
    return [
        Operation("ls", "ls", (f"{folder}/part1",)),
        Operation("read 4 KB", "read", (one,)),
        Operation("read 1 MB", "read", (f"{folder}/megabyte.txt", 0, 1_000_000)),
        Operation("read 100 lines of 10 MB", "read", (f"{folder}/large.txt", 100_000, 100)),
        Operation("write 4 KB", "write", (f"{new}.py", text(4000))),
        Operation("edit", "edit", (f"{new}.py", "compute(000007)", f"compute({turn})")),
        Operation("glob, 100 files", "glob", ("**/*.py", folder)),
        Operation("grep, 100 files", "grep", (NEEDLE, folder)),
        Operation('execute("true")', "execute", ("true",)),
        Operation("execute, 90 KB of output", "execute", (f"head -c 90000 {folder}/large.txt",)),
        Operation("execute, 2 MB of output", "execute", (f"head -c 2000000 {folder}/large.txt",)),
        Operation("upload 100 x 1 KB", "upload_files", (small,)),
        Operation("download 100 x 1 KB", "download_files", ([path for path, _ in small],)),
        Operation("upload 10 MB", "upload_files", ([(f"{new}.bin", block(LARGE))],)),
        Operation("download 10 MB", "download_files", ([f"{new}.bin"],)),
    ]


def check(operation: Operation, answer: Any) -> None:
    """Raise when an answer is an error, or files did not arrive whole."""
    for one in answer if isinstance(answer, list) else [answer]:
        if getattr(one, "error", None) or getattr(one, "exit_code", 0):
            raise RuntimeError(f"{operation.what} failed: {getattr(one, 'error', None) or one!r}"[:500])
    if operation.method == "download_files":
        size = LARGE if len(answer) == 1 else 1000
        if any(one.content != block(size) for one in answer):
            raise RuntimeError(f"{operation.what}: the content is not what was uploaded")
