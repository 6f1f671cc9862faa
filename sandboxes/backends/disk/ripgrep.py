"""ripgrep, where it is installed, says which files below a folder are worth looking into.

It is asked for names only. What matches, and how it is shown, is found out by `search` in the files themselves, which it
opens in its own, contained way: so the answers are the same with ripgrep and without, and none comes from a file outside of
the root that somebody put there while ripgrep ran. ripgrep may name too many files, but never too few.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandboxes.toolbox.helper.search import SECONDS

NEEDLE: Final = 1000
"""Characters of a pattern that ripgrep looks for; what is longer needs no more to be rare."""
PATIENCE: Final = 2.0
"""Seconds until files that are too large are to blame: to ask for the size of each costs a tenth of the whole search."""
PIPE: Final = 1024 * 1024
"""Bytes of names that may wait for us to read them."""
_UNSPEAKABLE: Final = re.compile("[\n\0\ud800-\udfff]")
"""What an argument of ripgrep cannot have, or a line of a file."""
_SAME_GLOB: Final = re.compile(r"(?!.*\*\*)[A-Za-z0-9_.*-]+", re.ASCII)
"""Globs that allow all files to ripgrep that they allow here; the others are left to us alone."""
_OPTIONS: Final = (
    "--no-config", "--no-ignore", "--hidden", "--no-messages", "--no-mmap", "--text", "--encoding=none",
    "--files-with-matches", "--null", "--fixed-strings",
)  # fmt: skip


@dataclass(frozen=True)
class Named:
    """Paths of files, relative to the folder; `complete` unless time ran out."""

    files: frozenset[str]
    complete: bool = True


def named(folder: int, pattern: str, glob: str | None, largest: int) -> Named | None:
    """The files below an open folder that may match; None when ripgrep cannot say.

    Files of more than `largest` bytes may be missing.
    """
    program, needle = shutil.which("rg"), max(_UNSPEAKABLE.split(pattern), key=len)[:NEEDLE]
    if program is None or not Path(program).is_absolute() or not needle:
        return None  # a relative one could be a file of the folder that is searched
    only = [f"--glob={glob}"] if glob and _SAME_GLOB.fullmatch(glob) else []
    words = [program, *_OPTIONS, *only, f"--regexp={needle}"]
    found = _run([*words, "./"], folder, PATIENCE)
    if found is not None and not found.complete:
        found = _run([*words, f"--max-filesize={largest}", "./"], folder, SECONDS)
    return found


def _run(words: list[str], folder: int, seconds: float) -> Named | None:
    try:
        process = subprocess.Popen(
            words,
            cwd=f"/proc/self/fd/{folder}",  # of the child, which has the descriptor until it becomes ripgrep
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pipesize=PIPE,
        )
    except OSError:
        return None
    try:
        names, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        names, _ = process.communicate()
        return Named(_paths(names), complete=False)
    finally:
        process.kill()
        process.wait()
    return Named(_paths(names)) if process.returncode in (0, 1) else None


def _paths(names: bytes) -> frozenset[str]:
    return frozenset(os.fsdecode(name).removeprefix("./") for name in names.split(b"\0")[:-1])
