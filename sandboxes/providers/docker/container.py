"""A sandbox's spec as the configuration of a container: pure functions, where all that is asked of the engine can be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from docker.types import HostConfig, LogConfig
from docker.types import Mount as EngineMount

from sandboxes.errors import InvalidSpec
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.docker import layout
from sandboxes.providers.docker.users import User

TMP_BYTES: Final = 1024**3
"""Size of /tmp and of the home folder where the system is read-only; `resources.disk` lowers it."""
HIDDEN_BYTES: Final = 4096
PACKAGE_CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")
"""What root in a sandbox with a writable system keeps: package managers need these, and nothing else is given back."""
READONLY_PATHS: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
"""The engine's own read-only paths: a list of ours replaces them, so it begins with them."""
NO_HEALTHCHECK: Final = {"test": ["NONE"]}
_RESERVED = ("/", "/proc", "/sys", "/dev", layout.OWN)


@dataclass(frozen=True)
class Under:
    """What a sandbox stands on."""

    owner: str
    """Id of the sandbox or snapshot right below it."""
    names: tuple[str, ...]
    """Volumes, the lowest first."""
    folders: tuple[str, ...]
    """Where the engine has what is in them."""
    mode: int
    """Permission bits of the working directory."""


@dataclass(frozen=True)
class Plan:
    """What `create` has found out, beyond the spec."""

    sandbox_id: str
    image: str
    user: User
    created_at: str
    expires_at: str
    labels: Mapping[str, str] = field(default_factory=dict)
    hidden_files: frozenset[str] = frozenset()
    """Targets of hidden mounts that are files in the image."""
    nothing: str = ""
    """Where the engine has the file that hides them."""
    under: Under | None = None
    porter: str = ""
    """Container that gives the volumes of this sandbox, and of others that are made with it, their owner."""
    unset: tuple[str, ...] = ()
    """Variables of the image that the sandbox does not get."""


def check_places(spec: SandboxSpec) -> None:
    """Refuse mounts and working directories that would lie over each other, over the kernel's or over our own places."""
    for place, what in [(spec.workdir, "workdir"), *((mount.target, "mount") for mount in spec.mounts)]:
        if place == "/" or any(place == one or place.startswith(one + "/") for one in _RESERVED[1:]):
            raise InvalidSpec(f"{what} {place}: choose a path that is not {', '.join(_RESERVED)} or below one of these")
    targets = [mount.target for mount in spec.mounts]
    twice = sorted({one for one in [*targets, spec.workdir] if [*targets, spec.workdir].count(one) > 1})
    if twice:
        raise InvalidSpec(f"mounts: {', '.join(twice)} is given twice, or is the working directory itself")
    for mount in spec.mounts:
        if mount.source is not None and mount.mode == "hidden":
            raise InvalidSpec(f"mount {mount.target}: a hidden mount has no source")
        if mount.source is not None and not Path(mount.source).exists():
            raise InvalidSpec(f"mount {mount.target}: the source {mount.source} does not exist on this machine")


def labels(plan: Plan, spec: SandboxSpec) -> dict[str, str]:
    """Labels of everything that belongs to a sandbox; `find` makes its handle from them again."""
    return {
        layout.SANDBOX_LABEL: plan.sandbox_id,
        layout.CREATED_LABEL: plan.created_at,
        layout.EXPIRES_LABEL: plan.expires_at,
        layout.WORKDIR_LABEL: spec.workdir,
        layout.TOLD_LABEL: json.dumps(spec.told()),
        layout.LABELS_LABEL: json.dumps(dict(plan.labels)),
        **{layout.USER_LABEL_PREFIX + key: value for key, value in plan.labels.items()},
    }


def in_memory(spec: SandboxSpec) -> bool:
    """Whether the working directory is held in memory: the one way to limit its size on every engine."""
    return spec.resources.disk is not None


def configuration(spec: SandboxSpec, plan: Plan, api_version: str) -> dict[str, Any]:
    """The arguments of `APIClient.create_container`, for an engine of this version."""
    return {
        "image": plan.image,
        "name": plan.sandbox_id,
        "hostname": plan.sandbox_id,
        "entrypoint": layout.boot_command(spec.workdir, spec.lifetime, spec.idle_timeout),
        "command": [],
        "stdin_open": True,
        "user": plan.user.ids,
        "working_dir": spec.workdir,
        "environment": {**dict.fromkeys(plan.unset), "HOME": layout.HOME, **spec.env},
        "labels": labels(plan, spec),
        "healthcheck": NO_HEALTHCHECK,
        "host_config": _host(spec, plan, api_version),
    }


def _host(spec: SandboxSpec, plan: Plan, api_version: str) -> dict[str, Any]:
    limits = spec.resources
    read_only = spec.system == "read-only"
    host = HostConfig(
        version=api_version,
        network_mode="bridge" if spec.network == "public" else "none",
        read_only=read_only,
        init=True,
        ipc_mode="private",
        cap_drop=["ALL"],
        cap_add=list(PACKAGE_CAPABILITIES) if plan.user.is_root and not read_only else None,
        security_opt=["no-new-privileges:true"],
        pids_limit=limits.pids,
        mem_limit=limits.memory,
        memswap_limit=limits.memory,
        nano_cpus=None if limits.cpu is None else int(limits.cpu * 1e9),
        runtime=spec.runtime,
        log_config=LogConfig(type="none"),
        tmpfs=_memory(spec, plan),
        mounts=_mounts(spec, plan),
    )
    kept = [mount.target for mount in spec.mounts if mount.mode == "read-only" and mount.source is None]
    if kept:
        host["ReadonlyPaths"] = [*READONLY_PATHS, *kept]
    return dict(host)


def _memory(spec: SandboxSpec, plan: Plan) -> dict[str, str]:
    """Places that are held in memory: path to options."""
    owner = f"uid={plan.user.uid},gid={plan.user.gid}"
    size = min(TMP_BYTES, spec.resources.disk or TMP_BYTES)
    open_to_all = "rw,exec,nosuid,nodev"
    places = {layout.HOME: f"{open_to_all},{owner},mode=0700,size={size}"}
    if spec.system == "read-only":
        places["/tmp"] = f"{open_to_all},mode=1777,size={size}"  # noqa: S108
    if in_memory(spec):
        places[spec.workdir] = f"{open_to_all},{owner},mode=0755,size={spec.resources.disk}"
        places[layout.STATE] = f"rw,noexec,nosuid,nodev,{owner},mode=0700,size={spec.resources.disk}"
    for mount in spec.mounts:
        if mount.mode == "hidden" and mount.target not in plan.hidden_files:
            places[mount.target] = f"ro,noexec,nosuid,nodev,mode=0000,size={HIDDEN_BYTES}"
    return places


def _mounts(spec: SandboxSpec, plan: Plan) -> list[EngineMount]:
    found = [EngineMount(layout.TOOLBOX, layout.toolbox_volume(), type="volume", read_only=True)]
    if not in_memory(spec):
        ours = labels(plan, spec)
        stands = plan.under is not None  # then its volume is made already, and nothing of the image is copied into it
        found += [
            EngineMount(layout.STATE, layout.state_volume(plan.sandbox_id), type="volume", labels=ours),
            EngineMount(spec.workdir, layout.workspace_volume(plan.sandbox_id), type="volume", labels=ours, no_copy=stands),
        ]
    if plan.under is not None:
        layer = layout.layer_volume(plan.sandbox_id)
        found.append(EngineMount(layout.LAYER, layer, type="volume", read_only=True, no_copy=True))
    for mount in spec.mounts:
        if mount.source is not None:
            found.append(EngineMount(mount.target, str(Path(mount.source).resolve()), type="bind", read_only=True))
        elif mount.target in plan.hidden_files:
            found.append(EngineMount(mount.target, plan.nothing, type="bind", read_only=True))
    return found
