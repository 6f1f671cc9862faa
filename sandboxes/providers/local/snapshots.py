"""Copying a layer of a sandbox that stands still, by a sandbox of its own: what is copied may be made to do harm."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from sandboxes.errors import SandboxError
from sandboxes.providers.local import jail, launch

COPY_SECONDS: Final = 600.0
"""How long copying one layer may take."""
_PRESERVED: Final = "mode,ownership,timestamps,links,xattr"
"""What a copy keeps. A layer's deletions are devices, its replaced folders have attributes."""


def copy_layer(source: Path, target: Path, bwrap: Path, owner: int | None) -> None:
    """Copy the layer `source` to `target`, which appears when it is whole. Raises `SandboxError`."""
    part = target.with_name(f"{target.name}.part")
    part.mkdir()
    if owner is not None:
        os.chown(part, owner, owner)
    copy = ["/bin/cp", "-dR", f"--preserve={_PRESERVED}", "--reflink=auto", "/from/.", "/to/"]
    try:
        done = subprocess.run(
            ["./bwrap", *_arguments(source, part), "--", *copy],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            **{**launch.surroundings(bwrap, owner), "timeout": COPY_SECONDS},
        )
    except subprocess.TimeoutExpired as exc:
        raise SandboxError(f"the files of a sandbox were not copied within {COPY_SECONDS:g} s") from exc
    if done.returncode != 0:
        raise SandboxError(f"the files of a sandbox could not be copied: {done.stderr.strip()[-500:]}")
    part.rename(target)


def _arguments(source: Path, target: Path) -> list[str]:
    # As root of a user namespace, which is its owner outside: it may enter what a sandbox has closed to itself.
    args = ["--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0", "--die-with-parent", "--clearenv"]
    args += ["--proc", "/proc"]  # the C library sets permissions by way of it
    args += ["--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER", "--ro-bind", "/usr", "/usr", *jail.top_folders()]
    return [*args, "--ro-bind", str(source), "/from", "--bind", str(target), "/to"]
