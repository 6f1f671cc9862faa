"""A sandbox's spec as a request to Daytona, and what Daytona has as our handles: pure functions."""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from daytona import CreateSandboxFromImageParams, CreateSandboxFromSnapshotParams, Image, Resources

from sandboxes.errors import InvalidSpec, Unsupported
from sandboxes.providers.base import GIB, SandboxHandle, SandboxSpec
from sandboxes.providers.daytona.building import BUILT
from sandboxes.providers.ids import is_sandbox_id

NAME: Final = "daytona"
TOLD: Final = "fanfold.told"
"""Label with JSON of what a handle tells: when it was made, when it ends, and its data."""
OURS: Final[Mapping[str, str]] = {"fanfold": "sandbox"}
"""Label of everything that is ours."""
MARK: Final = "fanfold.sandbox"
"""Label with the id. A fork brings its parent's labels along: what has another id than its name is one that was cut off."""
FORKING: Final = "fanfold.fork"
"""Label of a parent with JSON of the child that is being forked from it: its id, and its labels."""
KEEPING: Final = "fanfold.keeping"
"""Label of a parent with the name of the snapshot that its children are being made of."""
OF_THE_SDK: Final = "code-toolbox-language"
SNAPSHOT: Final = "snapshot:"
"""Before the name of a snapshot of the account, where an image can be named."""
GRACE_MINUTES: Final = 5
"""How much later than its lifetime the platform removes a sandbox by itself, if nobody else has."""
KEEP_MINUTES: Final = 60
"""How long the platform keeps a sandbox that was stopped."""


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


def params(
    spec: SandboxSpec, plan: Plan, default_image: str, built: Image | None = None
) -> CreateSandboxFromImageParams | CreateSandboxFromSnapshotParams:
    """The request for a sandbox. It holds no secret: the environment goes to our helper, and nowhere else.

    Raises `Unsupported`, or `InvalidSpec` for an image of a Dockerfile that is not here.
    """
    common: dict[str, Any] = {
        "name": plan.id,
        "labels": labels(plan, spec, None),
        "os_user": "root" if spec.system == "overlay" else None,
        "auto_stop_interval": minutes(spec),
        "auto_delete_interval": KEEP_MINUTES,
        "ttl_minutes": minutes(spec),
        **network(spec),
    }
    if built is not None:
        return CreateSandboxFromImageParams(image=built, resources=sizes(spec), **common)
    image = spec.image or default_image
    if image.startswith(BUILT) and plan.snapshot is None:
        raise InvalidSpec("daytona: its image was built of a Dockerfile, which no handle tells: give a spec that has it")
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
    return {**plan.labels, **OURS, MARK: plan.id, TOLD: json.dumps(told)}


def forking(found: Mapping[str, str], plan: Plan) -> dict[str, str]:
    """The labels of a parent that is about to be forked: with them the child can be found before it has its own."""
    return {**found, FORKING: json.dumps([plan.id, dict(plan.labels)])}


def data(spec: SandboxSpec, transport: str | None) -> dict[str, Any]:
    """`SandboxHandle.data`."""
    return {**({"transport": transport} if transport else {}), "workdir": spec.workdir, **spec.told()}


def handle(name: str, found: Mapping[str, str]) -> SandboxHandle | None:
    """The handle of a sandbox of this name and these labels; None when it is none of ours."""
    if not OURS.items() <= found.items() or not is_sandbox_id(name):
        return None
    own = {key: value for key, value in found.items() if key not in (*OURS, MARK, TOLD, FORKING, KEEPING, OF_THE_SDK)}
    if found.get(MARK) != name:
        own = _labels_of_fork(name, found.get(FORKING, "")) or own
    try:
        told = json.loads(found[TOLD])
        return SandboxHandle(NAME, name, own, told["created_at"], told["expires_at"], told["data"])
    except (KeyError, TypeError, ValueError):
        return SandboxHandle(NAME, name, own)


def _labels_of_fork(name: str, told: str) -> dict[str, str] | None:
    """The labels that a fork was to have; None when its parent tells nothing of it."""
    try:
        id_, own = json.loads(told)
    except ValueError:
        return None
    return dict(own) if id_ == name else None
