"""A sandbox's spec as a request to Daytona, and what Daytona has as our handles: pure functions."""

from __future__ import annotations

import base64
import ipaddress
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from daytona import CreateSandboxFromImageParams, CreateSandboxFromSnapshotParams, Resources

from sandboxes.errors import InvalidSpec, SandboxNotFound, Unsupported
from sandboxes.providers.base import GIB, SandboxHandle, SandboxSpec, SnapshotHandle, is_sandbox_id, is_snapshot_id

NAME: Final = "daytona"
TOLD: Final = "fanfold.told"
"""Label with JSON of what a handle tells: when it was made, when it ends, and its data."""
MARK: Final = "fanfold.sandbox"
"""Label of everything that is ours."""
OF_THE_SDK: Final = "code-toolbox-language"
SNAPSHOT: Final = "snapshot:"
"""Before the name of a snapshot of the account, where an image can be named."""
GRACE_MINUTES: Final = 5
"""How much later than its lifetime the platform removes a sandbox by itself, if nobody else has."""
KEEP_MINUTES: Final = 60
"""How long the platform keeps a sandbox that was stopped."""
NAME_CAP: Final = 250
"""Characters of a snapshot's name."""


@dataclass(frozen=True)
class Plan:
    """What `create` has decided, beyond the spec."""

    id: str
    """Ours, and the sandbox's name on the platform."""
    labels: Mapping[str, str]
    created_at: str
    expires_at: str
    snapshot: str | None = None
    """Name of a snapshot on the platform with all of its files."""


def check_spec(spec: SandboxSpec) -> None:
    """Refuse what the platform has no words for. Raises `Unsupported` or `InvalidSpec`."""
    if spec.image and spec.image.startswith(SNAPSHOT) and _limited(spec):
        raise Unsupported(f"daytona: a snapshot has its own cpu, memory and disk: give none with image: {spec.image}")
    if spec.network == "allowlist" and not spec.allowed_hosts:
        raise InvalidSpec("network: allowlist needs allowed_hosts")
    if spec.workdir in ("/", "/tmp"):  # noqa: S108 - a path in the sandbox
        raise InvalidSpec(f"workdir {spec.workdir}: choose a folder of its own")


def _limited(spec: SandboxSpec) -> bool:
    limits = spec.resources
    return not limits.cpu is limits.memory is limits.disk is None


def params(spec: SandboxSpec, plan: Plan, default_image: str) -> CreateSandboxFromImageParams | CreateSandboxFromSnapshotParams:
    """The request for a sandbox. It holds no secret: the environment goes to our helper, and nowhere else."""
    common: dict[str, Any] = {
        "name": plan.id,
        "labels": labels(plan, spec, None),
        "os_user": "root" if spec.system == "overlay" else None,
        "auto_stop_interval": minutes(spec),
        "auto_delete_interval": KEEP_MINUTES,
        "ttl_minutes": minutes(spec),
        **network(spec),
    }
    image = spec.image or default_image
    snapshot = plan.snapshot or (image.removeprefix(SNAPSHOT) if image.startswith(SNAPSHOT) else None)
    if snapshot is not None or (not image and not _limited(spec)):
        return CreateSandboxFromSnapshotParams(snapshot=snapshot, **common)
    if not image:
        raise Unsupported("daytona: the default snapshot has its own cpu, memory and disk: give an image with them")
    return CreateSandboxFromImageParams(image=image, resources=sizes(spec), **common)


def minutes(spec: SandboxSpec) -> int:
    """When the platform ends a sandbox by itself: after our helper has done so, which counts in seconds."""
    return math.ceil(spec.lifetime / 60) + GRACE_MINUTES


def sizes(spec: SandboxSpec) -> Resources | None:
    """Limits as the platform counts: whole cores, and GiB."""
    limits = spec.resources
    if not _limited(spec):
        return None
    memory, disk = (None if size is None else size // GIB for size in (limits.memory, limits.disk))
    return Resources(cpu=None if limits.cpu is None else int(limits.cpu), memory=memory, disk=disk)


def network(spec: SandboxSpec) -> dict[str, Any]:
    """The network as the platform words it: nothing, all, or what is on two lists."""
    if spec.network == "none":
        return {"network_block_all": True}
    if spec.network == "public":
        return {"network_block_all": False}
    blocks = [host for host in spec.allowed_hosts if _is_block(host)]
    names = [host for host in spec.allowed_hosts if not _is_block(host)]
    lists = {"network_allow_list": ",".join(map(_block, blocks)), "domain_allow_list": ",".join(names)}
    return {name: value for name, value in lists.items() if value}


def _is_block(host: str) -> bool:
    try:
        ipaddress.IPv4Network(host, strict=False)
    except ValueError:
        return False
    return True


def _block(host: str) -> str:
    return str(ipaddress.IPv4Network(host, strict=False))


def labels(plan: Plan, spec: SandboxSpec, transport: str | None) -> dict[str, str]:
    """All labels of a sandbox: those of the caller, and ours, from which `find` makes its handle again."""
    told = {"created_at": plan.created_at, "expires_at": plan.expires_at, "data": data(spec, transport)}
    return {**plan.labels, MARK: plan.id, TOLD: json.dumps(told)}


def data(spec: SandboxSpec, transport: str | None) -> dict[str, Any]:
    """`SandboxHandle.data`."""
    return {**({"transport": transport} if transport else {}), "workdir": spec.workdir, **spec.told()}


def handle(name: str, found: Mapping[str, str]) -> SandboxHandle | None:
    """The handle of a sandbox of this name and these labels; None when it is none of ours."""
    if found.get(MARK) is None or not is_sandbox_id(name):
        return None
    own = {key: value for key, value in found.items() if key not in (MARK, TOLD, OF_THE_SDK)}
    try:
        told = json.loads(found[TOLD])
        return SandboxHandle(NAME, name, own, told["created_at"], told["expires_at"], told["data"])
    except (KeyError, TypeError, ValueError):
        return SandboxHandle(NAME, name, own)


def snapshot_name(made: SnapshotHandle) -> str:
    """A snapshot's name on the platform, which has no labels for snapshots: ours are packed into it. Raises `Unsupported`."""
    record = [dict(made.labels), made.created_at, made.data["workdir"], made.data["spec"]]
    packed = base64.b32encode(zlib.compress(json.dumps(record, separators=(",", ":")).encode(), 9)).decode().rstrip("=").lower()
    name = f"{made.id}-{packed}"
    if len(name) > NAME_CAP:
        raise Unsupported(
            f"daytona: the labels of a snapshot are part of its name, and these are {len(name) - NAME_CAP} characters too long"
        )
    return name


def snapshot_handle(name: str) -> SnapshotHandle | None:
    """The handle of a snapshot of this name; None when it is none of ours."""
    id_, packed = name[:20], name[21:]
    if not is_snapshot_id(id_) or name[20:21] != "-":
        return None
    try:
        inflated = zlib.decompressobj().decompress(base64.b32decode(packed.upper() + "=" * (-len(packed) % 8)), 65536)
        own, created, workdir, spec = json.loads(inflated)
    except (ValueError, zlib.error):
        return None
    told = {"snapshot": name, "workdir": workdir, "mounts": [], "spec": spec, "untold": []}
    return SnapshotHandle(NAME, id_, own, created, "", told)


def platform_name(snapshot: SnapshotHandle) -> str:
    """What a snapshot is called on the platform. A handle may be forged: only what carries its id counts."""
    name = str(snapshot.data.get("snapshot", ""))
    if not is_snapshot_id(snapshot.id) or not name.startswith(f"{snapshot.id}-") or len(name) > NAME_CAP:
        raise SandboxNotFound(f"{snapshot.id!r:.80} is not the id of a Daytona snapshot")
    return name
