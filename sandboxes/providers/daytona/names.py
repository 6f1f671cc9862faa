"""The names of snapshots on the platform. It has no labels for these: what a handle tells is packed into the name."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Final

from sandboxes.errors import SandboxNotFound
from sandboxes.providers.base import SnapshotHandle
from sandboxes.providers.ids import is_snapshot_id, new_snapshot_id

CAP: Final = 250
"""Characters of a name."""
UNPACKED_CAP: Final = 65536
"""Bytes of what a name may unpack to: names are anybody's who has the account."""
_ID: Final = 20
_FORK: Final = "fanfold.fork"
_COMMON: Final = (
    b'{"image":"snapshot:","system":"overlay","env":{},"resources":{"cpu":,"memory":,"disk":},"network":"public","allowlist",'
    b'"allowed_hosts":["],"lifetime":,"idle_timeout":.0,"workdir":"/workspace","fanfold.installation":"","fanfold.fork":"sbx-"'
    b'"fanfold.run":"","fanfold.attempt":"1"}'
)
"""What is not said again: zlib refers to it."""
_HEX: Final = re.compile(rb"(?:[0-9a-f]{2}){4,120}")
_PACKED: Final = re.compile(rb"\x00(.)", re.DOTALL)


def name_of(made: SnapshotHandle) -> str | None:
    """A snapshot's name on the platform; None when there is too much to say for a name."""
    told = [dict(made.labels), made.data["workdir"], made.data["spec"]]
    text = json.dumps(told, separators=(",", ":")).encode()
    short = _HEX.sub(lambda match: b"\0" + bytes([len(match[0]) // 2]) + bytes.fromhex(match[0].decode()), text)
    packer = zlib.compressobj(9, wbits=-15, zdict=_COMMON)
    packed = base64.b32encode(packer.compress(short) + packer.flush()).decode().rstrip("=").lower()
    name = f"{made.id}-{packed}"
    return name if len(name) <= CAP else None


def handle_of(provider: str, name: str, created_at: str) -> SnapshotHandle | None:
    """The handle of the snapshot of this name; None when it is none of ours."""
    id_, packed = name[:_ID], name[_ID + 1 :]
    if not is_snapshot_id(id_) or name[_ID : _ID + 1] != "-":
        return None
    try:
        raw = base64.b32decode(packed.upper() + "=" * (-len(packed) % 8))
        short = zlib.decompressobj(wbits=-15, zdict=_COMMON).decompress(raw, UNPACKED_CAP)
        labels, workdir, spec = json.loads(_with_hex(short))
    except (ValueError, zlib.error):
        return None
    told = {"snapshot": name, "workdir": workdir, "mounts": [], "spec": spec, "untold": []}
    return SnapshotHandle(provider, id_, labels, created_at, "", told)


def name_for_fork(provider: str, parent: str, workdir: str) -> str | None:
    """A name for a snapshot that goes again, which tells whose it is."""
    return name_of(SnapshotHandle(provider, new_snapshot_id(), {_FORK: parent}, "", "", {"workdir": workdir, "spec": {}}))


def fork_of(name: str) -> str | None:
    """The sandbox of whose fork this is the snapshot; None for every other name."""
    told = handle_of("", name, "")
    return told.labels[_FORK] if told is not None and told.data["spec"] == {} and list(told.labels) == [_FORK] else None


def _with_hex(short: bytes) -> bytes:
    text, at = b"", 0
    while match := _PACKED.search(short, at):
        end = match.end() + match[1][0]
        text += short[at : match.start()] + short[match.end() : end].hex().encode()
        at = end
    return text + short[at:]


def checked(snapshot: SnapshotHandle) -> str:
    """What a snapshot is called on the platform. A handle may be forged: only a name that carries its id counts."""
    name = str(snapshot.data.get("snapshot", ""))
    if not is_snapshot_id(snapshot.id) or not name.startswith(f"{snapshot.id}-") or len(name) > CAP:
        raise SandboxNotFound(f"{snapshot.id!r:.80} is not the id of a Daytona snapshot")
    return name
