"""Where Fanfold's own things are in a Modal sandbox, and the commands that are given to it."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Final

from sandboxes.providers.base import SandboxSpec

OWN: Final = "/.fanfold"
"""The folder in every sandbox that is not the user's. Each has one of its own below: a copy of files brings that of others."""
HOME: Final = "/home/sandbox"
USER: Final = 30_000
"""Who commands run as, when the system is not to be written: nobody of any image."""
PACKAGE_CAPABILITIES: Final = ("chown", "dac_override", "fowner", "setgid", "setuid")
"""What root in a sandbox with a writable system keeps: package managers need these."""
CLAIM_SECONDS: Final = 120
"""After which a sandbox ends that nobody has brought the toolbox to: who made it was killed in the middle."""

_SAFE = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are that the sandbox cannot have put there."""
_BOOT = Path(__file__).with_name("boot.sh")
_INSTALL = f"""
{_SAFE}
umask 022
mkdir -p "$1" && head -c "$2" >"$1/toolbox.new" && mv "$1/toolbox.new" "$1/toolbox.pyz" || exit 1
tries=0
until [ -s "$1/transport" ] || [ "$tries" -gt 3000 ]; do
    tries=$((tries + 1))
    sleep 0.02 2>/dev/null || sleep 1
done
cat "$1/transport"
"""
"""Takes the toolbox from stdin and prints the transport, once it is known."""


def own(sandbox_id: str) -> str:
    """The sandbox's own folder: root's, so that what is run as root cannot be replaced."""
    return f"{OWN}/{sandbox_id}"


def state(sandbox_id: str) -> str:
    """The folder of the plain-exec transport: the sandbox user's."""
    return f"{own(sandbox_id)}/state/sh"


def as_user(sandbox_id: str) -> str:
    """The program that runs its arguments as the sandbox's user, without any privilege."""
    return f"{own(sandbox_id)}/as"


def user(spec: SandboxSpec) -> str:
    """Who commands run as: root, where the system is to be written and nobody else was asked for."""
    return spec.user or ("0:0" if spec.system == "overlay" else f"{USER}:{USER}")


def boot(sandbox_id: str, spec: SandboxSpec, *, inherited: bool) -> list[str]:
    """The first process. `inherited`: the image is a copy of another sandbox's files, of which /tmp and home are not wanted."""
    kept = "".join(f",+{name}" for name in PACKAGE_CAPABILITIES) if spec.system == "overlay" else ""
    arguments = [
        own(sandbox_id),
        spec.workdir,
        str(math.ceil(spec.idle_timeout or 0)),
        user(spec),
        str(spec.resources.pids or 0),
        f"-all{kept}",
        str(int(inherited)),
        HOME,
        str(CLAIM_SECONDS),
    ]
    return ["/bin/sh", "-c", _boot_script(), "fanfold", *arguments]


@cache
def _boot_script() -> str:
    return _BOOT.read_text()


def install(sandbox_id: str, size: int) -> list[str]:
    """The command that takes `size` bytes of toolbox and prints the transport."""
    return ["/bin/sh", "-c", _INSTALL, "fanfold", own(sandbox_id), str(size)]


def transport(sandbox_id: str) -> list[str]:
    """The command that prints the transport of a sandbox that was made before."""
    return ["/bin/sh", "-c", f"{_SAFE}; cat {own(sandbox_id)}/transport"]


def connect(sandbox_id: str) -> list[str]:
    """The command that bridges its stdin and stdout to the helper."""
    folder = own(sandbox_id)
    bridge = ("connect", "--socket", f"{folder}/state/toolbox.sock", "--wait", "5")
    return [as_user(sandbox_id), f"{folder}/python3", "-I", "-S", f"{folder}/toolbox.pyz", *bridge]
