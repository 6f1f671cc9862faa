"""What a sandbox provider is: five methods over plain JSON handles, and a declaration of what it can do.

Forks and snapshots work on every provider: `copying` makes them by those five methods. A provider may have a faster way.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sandboxes.errors import FanfoldSandboxError, InvalidSpec, Unsupported
from sandboxes.providers import copying
from sandboxes.providers.dockerfile import Dockerfile
from sandboxes.providers.isolation import WEAKEST, Isolation
from sandboxes.sandbox import Sandbox

Network = Literal["none", "public", "allowlist"]
Scope = Literal["workspace", "filesystem"]
"""What a fork carries: the working directory, or also what was changed of a writable system."""

GIB: Final = 1024**3
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4, "ki": 1024, "mi": 1024**2, "gi": 1024**3, "ti": 1024**4}


def parse_size(value: object) -> object:
    """Bytes from `512MiB`, `2G`, `1.5gb` or a number; anything else is left for pydantic to refuse."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", value.lower())
    if not match or match[2] == "i":
        raise ValueError(f"{value!r} is not a size: write a number of bytes, or a number with KiB, MiB, GiB, KB, MB or GB")
    return int(float(match[1]) * _UNITS[match[2]])


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(value: object) -> object:
    """Seconds from `90`, `90s`, `15m`, `1.5h` or `2d`; anything else is left for pydantic to refuse."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", value.lower())
    if not match:
        raise ValueError(f"{value!r} is not a duration: write seconds, or a number with s, m, h or d")
    return float(match[1]) * _SECONDS[match[2]]


def check_sandbox_path(value: str) -> str:
    """An absolute path in a sandbox, without `..`, `.` or NUL, normalized."""
    parts = value.split("/")
    if not value.startswith("/") or ".." in parts or "\0" in value:
        raise ValueError(f"{value!r} is not a path in the sandbox: it must be absolute and have no '..'")
    return "/" + "/".join(part for part in parts if part not in ("", "."))


Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]
Duration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0)]
SandboxPath = Annotated[str, AfterValidator(check_sandbox_path)]


class Strict(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Resources(Strict):
    """Limits of a sandbox. One that is not set is the platform's own."""

    cpu: float | None = Field(None, gt=0)
    """Cores."""
    memory: Size | None = None
    """Bytes (`2GiB`), swap included."""
    pids: int | None = Field(1024, gt=0)
    """Processes and threads."""
    disk: Size | None = None
    """Bytes that the working directory may hold."""


class Mount(Strict):
    """Something laid over a path of the sandbox before anything runs in it."""

    target: SandboxPath
    mode: Literal["read-only", "hidden"] = "read-only"
    """`read-only`: it can be read, not changed. `hidden`: an empty place that cannot be read or changed lies over it."""
    source: str | None = None
    """A folder or file of this machine to show there (read-only). None: what the image or the system has there."""


class SandboxSpec(Strict):
    """What a sandbox should be. Everything has a safe default: no network, no secrets, limited in processes and time."""

    image: str | None = None
    """Image of the providers that have images. None: the provider's default."""
    dockerfile: Dockerfile | None = None
    """Instead of an image: how it is built."""
    rootfs: str | None = None
    """Folder of this machine to be the (read-only) root filesystem, for `local`. None: this machine's `/usr`."""
    system: Literal["read-only", "overlay"] = "read-only"
    """`overlay`: the system can be written too (package installs); the changes live and die with the sandbox."""
    workdir: SandboxPath = "/workspace"
    env: dict[str, str] = Field(default_factory=dict)
    user: str | None = None
    """`uid`, `uid:gid` or a name of the image. None: the provider's default, never root on this machine."""
    resources: Resources = Resources()
    network: Network = "none"
    allowed_hosts: tuple[str, ...] = ()
    """For `network: allowlist`: names, exact or `*.example.org`."""
    mounts: tuple[Mount, ...] = ()
    lifetime: Duration = 3600.0
    """Seconds after which the sandbox ends by itself, whatever happens to who made it."""
    idle_timeout: Duration | None = None
    """Seconds without any call or running command after which it ends by itself."""
    runtime: str | None = None
    """Another OCI runtime of the engine (`runsc`)."""

    @model_validator(mode="after")
    def _one_image(self) -> SandboxSpec:
        if self.image is not None and self.dockerfile is not None:
            raise ValueError("give an image or a dockerfile, not both")
        return self

    def told(self) -> dict[str, Any]:
        """For `SandboxHandle.data`: JSON without the environment, which may hold secrets, and without paths of this machine."""
        told = self.model_dump(mode="json", exclude={"env", "rootfs", "dockerfile", "mounts"}, exclude_defaults=True)
        untold = [name for name in ("rootfs", "dockerfile") if getattr(self, name) is not None]
        untold += ["mounts"] if any(mount.source is not None for mount in self.mounts) else []
        return {"mounts": told_mounts(self), "spec": told, "untold": untold}


@dataclass(frozen=True)
class Capabilities:
    """What a provider can do and enforce on this machine. Declared, never guessed."""

    networks: frozenset[Network] = frozenset({"none"})
    images: bool = False
    dockerfile: bool = False
    """Whether an image can be built of a Dockerfile."""
    rootfs: bool = False
    writable_system: bool = False
    user: bool = False
    cpu: bool = False
    memory: Literal["sandbox", "process", "no"] = "no"
    """What a memory limit holds for: the sandbox as a whole, or each of its processes."""
    pids: bool = False
    disk: bool = False
    whole: bool = False
    """Whether cores, memory and disk can only be limited in whole cores and GiB."""
    mounts: bool = False
    idle_timeout: bool = False
    runtime: bool = False
    pause: bool = False
    """Whether a sandbox can be paused: it keeps its memory, and takes no CPU."""
    fork_scopes: frozenset[Scope] = frozenset({"workspace"})
    """What `fork` can carry. `filesystem` is no more than `workspace` where the system is read-only."""
    native_fork: bool = False
    """Whether forks share the parent's files as a layer, in a time that does not grow with them. Else they are copied."""
    fork_pauses: bool = False
    """Whether the parent stands still while there are forks that share its files."""
    notes: tuple[str, ...] = ()
    """Why something is missing and how to get it: one sentence each, shown by `fanfold doctor`."""

    def missing(self, spec: SandboxSpec) -> list[str]:
        """Reasons why `spec` cannot be had here; empty when it can."""
        asked = {
            f"network: {spec.network}": spec.network in self.networks,
            "image": self.images or spec.image is None,
            "dockerfile": self.dockerfile or spec.dockerfile is None,
            "rootfs": self.rootfs or spec.rootfs is None,
            "system: overlay": self.writable_system or spec.system == "read-only",
            "user": self.user or spec.user is None,
            "resources.cpu": spec.resources.cpu is None or (self.cpu and self._fits(spec.resources.cpu, 1)),
            "resources.memory": spec.resources.memory is None
            or (self.memory != "no" and self._fits(spec.resources.memory, GIB)),
            "resources.pids": self.pids or spec.resources.pids is None,
            "resources.disk": spec.resources.disk is None or (self.disk and self._fits(spec.resources.disk, GIB)),
            "mounts": self.mounts or not spec.mounts,
            "idle_timeout": self.idle_timeout or spec.idle_timeout is None,
            "runtime": self.runtime or spec.runtime is None,
        }
        return [what for what, can in asked.items() if not can]

    def _fits(self, value: float, step: int) -> bool:
        return not self.whole or value % step == 0


@dataclass(frozen=True)
class _Handle:
    """What another process needs to go on with something on a platform: plain JSON, no secrets in it."""

    provider: str
    id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    created_at: str = ""
    """ISO 8601, UTC."""
    expires_at: str = ""
    """ISO 8601, UTC: when its lifetime ends; empty when it has none."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The provider's own."""

    def to_json(self) -> dict[str, Any]:
        """A plain dict; `from_json` takes it back."""
        return {
            "provider": self.provider,
            "id": self.id,
            "labels": dict(self.labels),
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "data": dict(self.data),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises `InvalidSpec` when `value` is no handle."""
        try:
            return cls(**value)
        except TypeError as exc:
            raise InvalidSpec(f"not a handle: {exc}") from exc

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What the sandbox was made with, without where it came from. Raises `InvalidSpec` when `data` does not tell it."""
        try:
            return tuple(Mount.model_validate(mount) for mount in self.data.get("mounts") or ())
        except (TypeError, ValueError) as exc:
            raise InvalidSpec(f"not a sandbox handle: its mounts cannot be read: {exc}") from exc

    @property
    def told_spec(self) -> SandboxSpec:
        """What `data` tells of the spec, see `SandboxSpec.told`. Raises `InvalidSpec` when it tells none."""
        try:
            return SandboxSpec.model_validate({**self.data["spec"], "mounts": self.mounts})
        except (KeyError, TypeError, ValueError) as exc:
            raise InvalidSpec(f"the handle of {self.id:.80} does not tell what it was made with: give a spec") from exc

    @property
    def spec(self) -> SandboxSpec:
        """What it was made with, without `env`. Raises `InvalidSpec` when it had paths of a machine: no handle tells these."""
        spec = self.told_spec
        if untold := self.data.get("untold"):
            raise InvalidSpec(f"{self.id:.80} was made with {' and '.join(map(str, untold))} of its machine: give a spec")
        return spec


@dataclass(frozen=True)
class SandboxHandle(_Handle):
    """A sandbox, for any process."""


@dataclass(frozen=True)
class SnapshotHandle(_Handle):
    """What the files of a sandbox were at a moment, for any process."""


Forked = SandboxHandle | FanfoldSandboxError
"""What became of one child: its handle, or why there is none."""
Labels = Mapping[str, str] | Sequence[Mapping[str, str]] | None
"""Labels for the children of a fork: the same for all, or one mapping for each."""


def told_mounts(spec: SandboxSpec) -> list[dict[str, str]]:
    """The mounts of a spec for `SandboxHandle.data`: what they close, and nothing of this machine."""
    return [{"target": mount.target, "mode": mount.mode} for mount in spec.mounts]


def lifetime_stamps(spec: SandboxSpec) -> tuple[str, str]:
    """`created_at` and `expires_at` of a sandbox that is made now."""
    now = datetime.now(UTC)
    return now.isoformat(), (now + timedelta(seconds=spec.lifetime)).isoformat()


class SandboxProvider(ABC):
    """Lifecycle of sandboxes on one platform. Async inside; `sandboxes.portal.portal.run` serves sync callers."""

    name: str
    isolation: Isolation = WEAKEST
    """What separates its sandboxes from the machine. None of the `Capabilities`, because it has to be known while the platform
    is away: what takes its place may not be weaker."""

    declared: Capabilities = Capabilities()
    """What can be done where the platform lacks nothing, for documentation. What holds here and now: `capabilities`."""

    @abstractmethod
    async def capabilities(self) -> Capabilities:
        """What can be done here, now. Raises `ProviderUnavailable` when the platform is not there."""

    @abstractmethod
    async def create(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None = None, *, from_snapshot: SnapshotHandle | None = None
    ) -> SandboxHandle:
        """Make a sandbox and start it; its working directory is empty, or as in a snapshot. When this raises, nothing is left.

        A provider without snapshots of its own leaves those to `copying.restored`.
        Raises `Unsupported`, `ProviderUnavailable`, `ImageNotFound` or `SandboxError`.
        """

    @abstractmethod
    async def attach(self, handle: SandboxHandle) -> Sandbox:
        """Connect to a live sandbox, also one that another process made. Raises `SandboxNotFound` or `SandboxGone`."""

    @abstractmethod
    async def destroy(self, handle: SandboxHandle) -> None:
        """End a sandbox and remove all it left on the platform. What is already gone is no error."""

    @abstractmethod
    async def find(self, labels: Mapping[str, str] | None = None) -> list[SandboxHandle]:
        """Sandboxes of this provider that carry all these labels: those that run, and what is left of those that have ended."""

    async def check(self, spec: SandboxSpec) -> None:
        """Raise `Unsupported` with every reason when this provider cannot do, or cannot enforce, what `spec` asks for."""
        capabilities = await self.capabilities()
        missing = capabilities.missing(spec)
        if missing:
            hints = " ".join(capabilities.notes)
            raise Unsupported(f"provider '{self.name}' cannot give: {', '.join(missing)}. {hints}".rstrip())
        if spec.network != "allowlist" and spec.allowed_hosts:
            raise InvalidSpec("allowed_hosts needs `network: allowlist`")

    async def pause(self, handle: SandboxHandle) -> None:
        """Let everything in a sandbox stand still until `resume`; its lifetime may stand still too.

        What is paused is no error. Raises `Unsupported` without `Capabilities.pause`, `SandboxNotFound` or `SandboxGone`.
        """
        raise Unsupported(f"provider '{self.name}' cannot pause a sandbox")

    async def resume(self, handle: SandboxHandle) -> None:
        """Let a paused sandbox go on; it has to before it is attached. What is not paused is no error. Raises as `pause`."""
        raise Unsupported(f"provider '{self.name}' cannot pause a sandbox")

    async def fork(
        self,
        handle: SandboxHandle,
        count: int,
        *,
        spec: SandboxSpec | None = None,
        labels: Labels = None,
        scope: Scope = "workspace",
    ) -> list[Forked]:
        """Make `count` sandboxes with the files of this one as they stand; for each its handle, or why it could not be made.

        Processes, sockets, the environment, `/tmp` and what the sandbox knows of its calls are not carried over. `spec` is
        what the children are to be; by default what the parent was made with, without `env`. Where `fork_pauses` is declared,
        the parent is paused when this returns and some child was made; `resume` is refused until the last one is destroyed.
        Children may outlive it. Raises for what concerns all of them, and then leaves none: `InvalidSpec`, `Unsupported`,
        `SandboxNotFound`, `SandboxGone` or `SandboxError`.
        """
        wanted = await self.check_fork(handle, count, spec, labels, scope)
        return await copying.forked(self, handle, *wanted)

    async def check_fork(
        self, handle: SandboxHandle, count: int, spec: SandboxSpec | None, labels: Labels, scope: Scope
    ) -> tuple[SandboxSpec, list[dict[str, str]]]:
        """What the children of a fork are to be, and the labels of each. Raises `InvalidSpec` or `Unsupported`."""
        each = [labels or {}] * count if labels is None or isinstance(labels, Mapping) else labels
        if count < 1 or len(each) != count:
            raise InvalidSpec(f"a fork of {count} with {len(each)} labels: give at least 1 child, and labels for all or each")
        wanted = spec or handle.spec
        await self.check(wanted)
        if scope == "filesystem" and handle.told_spec.system == "overlay":
            if scope not in (await self.capabilities()).fork_scopes:
                raise Unsupported(f"provider '{self.name}' cannot fork the filesystem of a sandbox, only its workspace")
            if wanted.system != "overlay":
                raise InvalidSpec("a fork of the filesystem needs `system: overlay`, as its parent has")
        return wanted, [dict(one) for one in each]

    async def snapshot(self, handle: SandboxHandle, labels: Mapping[str, str] | None = None) -> SnapshotHandle:
        """Keep the working directory as it is now, for `create`. It does not change, and outlives its sandbox.

        By default it is kept in a sandbox of its own, which `find` shows, for `copying.SNAPSHOT_SECONDS`. Raises as `attach`.
        """
        return SnapshotHandle(**(await copying.kept(self, handle, labels or {})).to_json())

    async def delete_snapshot(self, snapshot: SnapshotHandle) -> None:
        """Remove a snapshot. Sandboxes that were made from it go on. What is already gone is no error."""
        await self.destroy(SandboxHandle(**snapshot.to_json()))

    async def find_snapshots(self, labels: Mapping[str, str] | None = None) -> list[SnapshotHandle]:
        """Snapshots of this provider that carry all these labels, also those whose making was cut off."""
        return [SnapshotHandle(**one.to_json()) for one in await self.find({**(labels or {}), **copying.SNAPSHOT_MARK})]

    async def sweep(self) -> None:
        """Remove what is no sandbox and nobody needs any more: what was kept for a while, or left by who was killed.

        By default there is no such thing. May be called at any time, and by several at once.
        """
        return

    async def aclose(self) -> None:
        """Let go of connections to the platform. Sandboxes go on."""
        return
