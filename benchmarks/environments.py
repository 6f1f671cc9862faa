"""Environments of their own for peers that cannot be in ours, in the user's folder for caches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

INSTALL_TIMEOUT = 600.0
"""Seconds."""
_STAMP = "fanfold-packages"


def _folder(name: str) -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fanfold-bench" / name


def is_made(name: str, *packages: str) -> bool:
    """Whether the environment is there with these packages."""
    stamp = _folder(name) / _STAMP
    return stamp.exists() and stamp.read_text() == "\n".join(packages)


def environment(name: str, *packages: str) -> Path:
    """Its folder; it is made when it is missing. Leaves with one clear message when it cannot be."""
    folder = _folder(name)
    if not is_made(name, *packages):
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=INSTALL_TIMEOUT)
            install = [str(folder / "bin" / "pip"), "install", "--quiet", *packages]
            subprocess.run(install, check=True, timeout=INSTALL_TIMEOUT)
        except (OSError, subprocess.SubprocessError) as exc:
            raise SystemExit(f"benchmarks: {', '.join(packages)} could not be installed into {folder}: {exc}") from exc
        (folder / _STAMP).write_text("\n".join(packages))
    return folder
