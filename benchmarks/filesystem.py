"""`python -m benchmarks.filesystem`: searches of a large tree on disk, beside deepagents' `FilesystemBackend`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Call, Config, Row, compare, need, run
from sandboxes.backends import FilesystemBackend

if TYPE_CHECKING:
    from deepagents.backends import FilesystemBackend as Peer

FILES = 50_000
FEW_FILES = 2_000
"""Files of the quick form."""
IN_A_FOLDER = 50
LINES = 40
ROUNDS = 5
FEW_ROUNDS = 2
"""For what takes the peer seconds."""


async def bench(config: Config) -> list[Row]:
    """Every row on one tree, in virtual mode on both sides. Those with ripgrep need it installed."""
    need("deepagents", "deepagents")
    from deepagents.backends import FilesystemBackend as Peer

    with tempfile.TemporaryDirectory() as folder:
        count = FEW_FILES if config.quick else FILES
        plant(Path(folder), count)
        ours, peer = FilesystemBackend(folder, virtual_mode=True), Peer(folder, virtual_mode=True)
        rows = []
        if shutil.which("rg"):
            with ripgrep(there=True):
                rows += await _greps(config, ours, peer, f"grep, {count} files, ripgrep", ROUNDS)
                rows += await _greps(config, ours, peer, "the same, 1 match in 20 files", ROUNDS, "now and then")
        with ripgrep(there=False):
            rows += await _greps(config, ours, peer, f"grep, {count} files, no ripgrep", FEW_ROUNDS)
        return [*rows, *await _globs(config, ours, peer, count)]


def plant(root: Path, count: int) -> None:
    """A tree of Python and text files of about 2 KB, three folders deep, without links and ignored files: both search all."""
    for number in range(count):
        folder = number // IN_A_FOLDER
        path = root / f"part{folder % 50}" / f"module{folder}" / f"file{number}.{'py' if number % 2 else 'txt'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        rare = "a needle in the hay\n" if number % 500 == 0 else ""
        often = "every now and then\n" if number % 20 == 0 else ""
        path.write_text(f"def function_{number}(argument):  # some text of a line\n" * LINES + rare + often)


@contextmanager
def ripgrep(*, there: bool) -> Iterator[None]:
    """Hide ripgrep from both sides, or not. The peer remembers where it found it."""
    from deepagents.backends.filesystem import _resolve_ripgrep_path

    before = os.environ["PATH"]
    if not there:
        os.environ["PATH"] = os.devnull
    _resolve_ripgrep_path.cache_clear()
    try:
        yield
    finally:
        os.environ["PATH"] = before
        _resolve_ripgrep_path.cache_clear()


async def _greps(
    config: Config, ours: FilesystemBackend, peer: Peer, what: str, rounds: int, pattern: str = "needle"
) -> list[Row]:
    return [await _row(config, what, lambda: ours.grep(pattern), lambda: peer.grep(pattern), rounds)]


async def _globs(config: Config, ours: FilesystemBackend, peer: Peer, count: int) -> list[Row]:
    pairs = [(f"glob, {count} files", "*7.py"), ("the same, in folders", "part1*/**/*9.py"), ("the same, no match", "*.none")]
    return [
        await _row(config, what, lambda p=pattern: ours.glob(p), lambda p=pattern: peer.glob(p), FEW_ROUNDS)
        for what, pattern in pairs
    ]


async def _row(config: Config, what: str, ours: Call, peer: Call, rounds: int) -> Row:
    same(ours(), peer())
    return Row(what, "ms", *await compare(ours, peer, rounds=config.rounds(rounds), ours_each=2, peer_each=1), 1)


def same(ours: Any, peer: Any) -> None:
    """Raise unless both answers are the same; of a peer that ran out of its time, unless what it found is right."""
    first, second = (sorted((match["path"], match.get("line", 0)) for match in found.matches) for found in (ours, peer))
    if ours.truncated or (first != second and not (peer.truncated and set(second) <= set(first))):
        raise RuntimeError(f"the answers differ: {len(first)} matches of ours, {len(second)} of the peer's")


BENCH = {"disk: FilesystemBackend / deepagents' FilesystemBackend": bench}

if __name__ == "__main__":
    run(BENCH)
