"""Where Fanfold's own things are in a Docker sandbox, and how its objects on the engine are called."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from sandboxes.toolbox.bundle import bundle, quick_bundle

PROVIDER: Final = "docker"
"""Name of the provider, in handles."""
OWN: Final = "/.fanfold"
"""The folder in every sandbox that is not the user's."""
TOOLBOX: Final = f"{OWN}/toolbox"
"""The helper and the boot script: a volume of the engine, read-only in the sandbox."""
STATE: Final = f"{OWN}/state"
"""The sandbox's own journal, socket and command output."""
LAYER: Final = f"{OWN}/layer"
"""Of a sandbox that stands on others: what it has written to its working directory (`upper`), to be looked at."""
HOME: Final = "/home/sandbox"

OWN_LABELS: Final = "fanfold."
"""How all labels begin that mean something to us."""
SANDBOX_LABEL: Final = "fanfold.sandbox"
PORTER_LABEL: Final = "fanfold.porter"
TOOLBOX_LABEL: Final = "fanfold.toolbox"
CREATED_LABEL: Final = "fanfold.created-at"
EXPIRES_LABEL: Final = "fanfold.expires-at"
WORKDIR_LABEL: Final = "fanfold.workdir"
TOLD_LABEL: Final = "fanfold.spec"
"""JSON of what a handle tells of the spec."""
LABELS_LABEL: Final = "fanfold.labels"
"""JSON of the labels that the caller of `create` gave: a fork's image brings its parent's along."""
LAYERS_LABEL: Final = "fanfold.layers"
"""JSON of the names of the volumes that a workspace volume stands on, the lowest first."""
SNAPSHOT_LABEL: Final = "fanfold.snapshot-id"
MODE_LABEL: Final = "fanfold.mode"
"""Permission bits of the working directory that a snapshot was made of, in octal."""
UNSET_LABEL: Final = "fanfold.unset"
"""JSON of the names of variables that a fork's image must not give to its containers."""
FORK_IMAGES: Final = "fanfold-fork"
"""Repository of the images of forks."""
BUILT_IMAGES: Final = "fanfold-built"
"""Repository of the images that are built of Dockerfiles; their tags are hashes of what they are built of."""
BUILT_LABEL: Final = "fanfold.built"
USER_LABEL_PREFIX: Final = "fanfold.label."
"""Before the labels that the caller of `create` gave."""

CONNECT: Final = (
    *("python3", "-I", "-S", f"{TOOLBOX}/toolbox.pyz"),
    *("connect", "--socket", f"{STATE}/toolbox.sock", "--wait", "5"),
)
"""The command that bridges its stdin and stdout to the helper."""
TRANSPORT: Final = ("/bin/sh", "-c", f"cat {STATE}/transport")
"""The command that prints which transport the sandbox needs."""

_BOOT = Path(__file__).with_name("boot.sh")


def workspace_volume(sandbox_id: str) -> str:
    """Name of the volume of a sandbox's working directory."""
    return f"{sandbox_id}-workspace"


def layer_volume(owner: str) -> str:
    """Name of the volume with what a sandbox that stands on others writes, or with the files of a snapshot."""
    return f"{owner}-layer"


def state_volume(sandbox_id: str) -> str:
    """Name of the volume of a sandbox's `STATE`."""
    return f"{sandbox_id}-state"


def porter_name(sandbox_id: str) -> str:
    """Name of the container, never started, that gives a sandbox's volumes their owner."""
    return f"{sandbox_id}-porter"


def boot_command(workdir: str, lifetime: float, idle: float | None) -> list[str]:
    """The main process of a sandbox. Seconds are rounded up: `sh` counts in whole ones."""
    return ["/bin/sh", f"{TOOLBOX}/boot.sh", workdir, str(_ceil(lifetime)), str(_ceil(idle or 0))]


def _ceil(seconds: float) -> int:
    return int(-(-seconds // 1))


@dataclass(frozen=True)
class Owned:
    """A folder in an archive, with its owner."""

    name: str
    uid: int
    gid: int
    mode: int


def folders_archive(folders: Sequence[Owned]) -> bytes:
    """An archive of empty folders. Unpacked over existing ones it gives them these owners and modes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for folder in folders:
            entry = tarfile.TarInfo(folder.name)
            entry.type, entry.uid, entry.gid, entry.mode = tarfile.DIRTYPE, folder.uid, folder.gid, folder.mode
            entry.mtime = int(time.time())
            archive.addfile(entry)
    return packed.getvalue()


NOTHING: Final = "nothing"
"""A file of the toolbox volume that nobody can read: it lies over hidden files."""
TOOLBOX_MARK: Final = "complete"
"""Last file of the toolbox volume: when it is there, the others are."""


@cache
def toolbox_archive() -> bytes:
    """What the toolbox volume holds."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        files = {"toolbox.pyz": quick_bundle(), "boot.sh": _BOOT.read_bytes(), NOTHING: b"", TOOLBOX_MARK: b""}
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o000 if name == NOTHING else 0o444
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


@cache
def toolbox_volume() -> str:
    """Name of the toolbox volume: another version of what is in it has another name.

    By what it is made from: byte code of the same source is not the same bytes every time.
    """
    made_from = hashlib.sha256(bundle() + importlib.util.MAGIC_NUMBER + _BOOT.read_bytes())
    return f"fanfold-toolbox-{made_from.hexdigest()[:16]}"
