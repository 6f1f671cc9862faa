"""Removing what a sandbox has left on this machine, which it may have made to be hard to remove."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path


def remove_tree(top: Path) -> None:
    """Remove a folder with folders in it that cannot be entered, or that are too deep for any path or stack.

    Each is moved up to `top` before it is emptied: so no path here gets long, and nothing recurses. Nobody may be writing to it
    but others who remove it, too. A folder that is not there is no error.
    """
    waiting = [top]
    while waiting:
        try:
            if inner := _emptied(waiting[-1], top):
                waiting += inner
                continue
            waiting[-1].rmdir()
        except FileNotFoundError:
            pass  # somebody else was faster
        except OSError as exc:
            if exc.errno != errno.ENOTEMPTY:
                raise
            continue  # somebody else has moved a folder up
        waiting.pop()


def _emptied(folder: Path, top: Path) -> list[Path]:
    """Remove the files in a folder; the folders that are in it, moved up."""
    folder.chmod(0o700)
    with os.scandir(folder) as found:
        entries = list(found)
    inner = []
    for entry in entries:
        place = Path(entry.path)
        if not entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):
                place.unlink()
            continue
        if folder != top:
            place.chmod(0o700)
            place = place.rename(top / f".{secrets.token_hex(8)}")
        inner.append(place)
    return inner
