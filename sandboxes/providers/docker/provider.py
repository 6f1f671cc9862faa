"""Sandboxes as containers of a Docker engine."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sandboxes.errors import SandboxError, SandboxGone, SandboxNotFound, Unsupported
from sandboxes.providers import copying, standing
from sandboxes.providers.base import (
    Capabilities,
    Forked,
    Labels,
    SandboxHandle,
    SandboxProvider,
    SandboxSpec,
    Scope,
    SnapshotHandle,
    lifetime_stamps,
)
from sandboxes.providers.context import prepared
from sandboxes.providers.docker import building, container, images, layers, layout, lifecycle, snapshots
from sandboxes.providers.docker.engine import Engine
from sandboxes.providers.docker.exec import ContainerExec
from sandboxes.providers.docker.making import Maker
from sandboxes.providers.docker.stream import Demultiplexer
from sandboxes.providers.ids import is_sandbox_id, is_snapshot_id, new_snapshot_id
from sandboxes.sandbox import Sandbox
from sandboxes.toolbox.attached import ToolboxSandbox
from sandboxes.toolbox.client import connect
from sandboxes.toolbox.shell import ShellSandbox

DEFAULT_IMAGE: Final = "python:3.12-slim"
ATTACH_SECONDS: Final = 30.0
"""How long attaching may take."""
ENDING_LOOKS: Final = 20
"""How often a sandbox whose helper does not answer is looked at, before it is taken for alive."""
ENDING_PAUSE: Final = 0.05
"""Seconds between two looks."""
_NO_ALLOWLIST = "`network: allowlist` cannot be enforced by the Docker engine alone: use `none`, or `public`."


class DockerProvider(SandboxProvider):
    """Lifecycle of sandboxes on one Docker engine.

    `base_url` is the engine's (default: DOCKER_HOST, else the local socket); `pull` says whether a missing image is fetched.
    """

    name = layout.PROVIDER
    isolation = "container"
    declared = Capabilities(
        networks=frozenset({"none", "public"}),
        images=True,
        dockerfile=True,
        writable_system=True,
        user=True,
        cpu=True,
        memory="sandbox",
        pids=True,
        disk=True,
        mounts=True,
        idle_timeout=True,
        runtime=True,
        pause=True,
        fork_scopes=frozenset({"workspace", "filesystem"}),
        native_fork=True,
        fork_pauses=True,
    )

    def __init__(
        self, default_image: str = DEFAULT_IMAGE, *, pull: images.Pull = "missing", base_url: str | None = None
    ) -> None:
        self._engine = Engine(base_url)
        self._maker = Maker(self._engine, default_image, pull)
        self._builder = building.Builder(pull)
        self._info: dict[str, Any] | None = None

    async def capabilities(self) -> Capabilities:
        """See `SandboxProvider`."""
        if self._info is None:
            self._info = await self._engine.run("describe itself", lambda: self._engine.api.info())
        info = self._info
        limits = {"cpu": "CpuCfsQuota", "pids": "PidsLimit"}
        lacking = [name for name, key in {**limits, "memory": "MemoryLimit"}.items() if not _can(info, key)]
        notes = [f"The engine's kernel cannot limit: {', '.join(lacking)}."] if lacking else []
        return replace(
            self.declared,
            cpu="cpu" not in lacking,
            memory="no" if "memory" in lacking else "sandbox",
            pids="pids" not in lacking,
            runtime=bool(_runtimes(info)),
            native_fork=self._stacks(info),
            fork_pauses=self._stacks(info),
            notes=(*notes, _NO_ALLOWLIST),
        )

    def _stacks(self, info: Mapping[str, Any]) -> bool:
        """Whether the engine's volumes can be layers of others."""
        return layers.usable(info, self._engine.is_here)

    async def check(self, spec: SandboxSpec) -> None:
        """See `SandboxProvider`."""
        await super().check(spec)
        container.check_places(spec)
        if spec.resources.disk is not None and spec.system == "overlay":
            raise Unsupported("docker can limit the disk only with `system: read-only`: a writable system has no limit")
        if any(mount.source is not None for mount in spec.mounts) and not self._engine.is_here:
            raise Unsupported(f"mounts with a source need an engine on this machine, not {self._engine.address}")
        runtimes = _runtimes(self._info or {})
        if spec.runtime is not None and spec.runtime not in runtimes:
            raise Unsupported(f"the engine has no runtime {spec.runtime!r}, only: {', '.join(runtimes)}")

    async def create(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None = None, *, from_snapshot: SnapshotHandle | None = None
    ) -> SandboxHandle:
        """See `SandboxProvider`."""
        await self.check(spec)
        spec = await self._with_image(spec)
        if from_snapshot is None:
            return await self._make(spec, labels, None)
        if not is_snapshot_id(from_snapshot.id):
            return await copying.restored(self, from_snapshot, spec, labels)
        under = await self._engine.run("find a snapshot", lambda: layers.under_snapshot(self._engine.api, from_snapshot.id))
        kept = from_snapshot.told_spec
        if _fits(spec, kept):
            return await self._make(spec, labels, under)
        # Who is another user, or held in memory, gets the files from a sandbox that is not.
        between = await self._make(_on_disk(kept), labels, under)
        try:
            return copying.only(await copying.forked(self, between, spec, [labels or {}]))
        finally:
            await self.destroy(between)

    async def _with_image(self, spec: SandboxSpec) -> SandboxSpec:
        """The spec with the image that its Dockerfile makes. Raises `InvalidSpec`, `ImageNotFound` or `ImageBuildFailed`."""
        if spec.dockerfile is None:
            return spec
        api = self._engine.api
        async with prepared(spec) as build:
            work = lambda: self._builder.image(api, build, spec.resources.memory)  # noqa: E731
            image = await self._engine.run("build an image", work)
        return spec.model_copy(update={"image": image, "dockerfile": None})

    async def sweep(self) -> None:
        """See `SandboxProvider`."""
        await self._engine.run("remove old images", lambda: building.sweep(self._engine.api))

    async def _make(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None, under: container.Under | None
    ) -> SandboxHandle:
        if under is None:
            return await self._maker.one(spec, labels or {})
        async with self._maker.several(spec, [labels or {}], under) as [making]:
            return await making

    async def attach(self, handle: SandboxHandle) -> Sandbox:
        """See `SandboxProvider`."""
        if not is_sandbox_id(handle.id):
            raise SandboxNotFound(f"{handle.id!r} is not the id of a Docker sandbox")
        run = ContainerExec(self._engine, handle.id)
        workdir = str(handle.data.get("workdir") or "/workspace")
        transport = handle.data.get("transport") or await self._transport(run)
        sandbox: Sandbox
        if transport == "sh":
            await run.check()
            sandbox = await self._attach_shell(run, handle.id, workdir)
        else:
            sandbox = await self._attach_helper(run, handle.id, workdir)
        sandbox.mounts = handle.mounts
        return sandbox

    async def _transport(self, run: ContainerExec) -> str:
        """Ask the sandbox what its boot script found out; for handles that come from `find`."""
        answer = await run(layout.TRANSPORT, deadline=ATTACH_SECONDS, cap=100)
        transport = answer.stdout.decode("ascii", "replace").strip()
        if transport not in ("helper", "sh"):
            raise SandboxError(f"the sandbox has not come up: its transport is {transport!r} ({answer.stderr.strip()})")
        return transport

    async def _attach_shell(self, run: ContainerExec, sandbox_id: str, workdir: str) -> Sandbox:
        try:
            return await ShellSandbox.attach(run, sandbox_id=sandbox_id, workdir=workdir, state=f"{layout.STATE}/sh")
        except SandboxError:
            await self._raise_if_ending(run)
            raise

    async def _attach_helper(self, run: ContainerExec, sandbox_id: str, workdir: str) -> Sandbox:
        if line := self._maker.lines.take(sandbox_id):
            output = Demultiplexer(ends_by_stderr=True)
            with contextlib.suppress(SandboxError):  # it may have broken since
                client = await connect(line, deadline=ATTACH_SECONDS, unwrap=output.stdout)
                return ToolboxSandbox(client, sandbox_id=sandbox_id, workdir=workdir)
        async with asyncio.timeout(ATTACH_SECONDS):
            stream = await run.open(layout.CONNECT)
        output = Demultiplexer()
        try:
            client = await connect(stream.sock, deadline=ATTACH_SECONDS, unwrap=output.stdout, early=stream.early)
        except SandboxError as exc:
            await self._raise_if_ending(run)
            if isinstance(exc, SandboxGone):
                raise SandboxGone(f"the helper of sandbox {sandbox_id} does not answer: {output.stderr or exc}") from exc
            raise
        return ToolboxSandbox(client, sandbox_id=sandbox_id, workdir=workdir)

    async def _raise_if_ending(self, run: ContainerExec) -> None:
        """Raise why the sandbox has ended, or is about to: the engine says so a moment after it has refused the command."""
        for _ in range(ENDING_LOOKS):
            await run.check()
            await asyncio.sleep(ENDING_PAUSE)

    async def pause(self, handle: SandboxHandle) -> None:
        """See `SandboxProvider`."""
        await self._set_paused(handle, True)

    async def resume(self, handle: SandboxHandle) -> None:
        """See `SandboxProvider`."""
        await self._set_paused(handle, False)

    async def _set_paused(self, handle: SandboxHandle, paused: bool) -> None:
        if not is_sandbox_id(handle.id):
            raise SandboxNotFound(f"{handle.id!r} is not the id of a Docker sandbox")
        await self._engine.run(
            "pause a sandbox" if paused else "resume a sandbox",
            lambda: lifecycle.set_paused(self._engine.api, handle.id, paused),
        )

    async def fork(
        self,
        handle: SandboxHandle,
        count: int,
        *,
        spec: SandboxSpec | None = None,
        labels: Labels = None,
        scope: Scope = "workspace",
    ) -> list[Forked]:
        """See `SandboxProvider`. What is held in memory, or belongs to another user, is copied."""
        if not is_sandbox_id(handle.id):
            raise SandboxNotFound(f"{handle.id!r} is not the id of a Docker sandbox")
        wanted, each = await self.check_fork(handle, count, spec, labels, scope)
        wanted = await self._with_image(wanted)
        went_on = not await self._engine.run("look at a sandbox", lambda: lifecycle.is_paused(self._engine.api, handle.id))
        under = await self._under(handle, wanted)

        async def children() -> list[Forked]:
            if scope == "filesystem" and handle.told_spec.system == "overlay":
                return await self._with_system(handle, wanted, each, under)
            return await self._children(handle, wanted, each, under)

        if under is None:
            return await children()
        return await standing.while_still(self, handle, went_on, children, standing.any_made)

    async def _under(self, handle: SandboxHandle, wanted: SandboxSpec) -> container.Under | None:
        """What children of this sandbox stand on; None when its files have to be copied."""
        told = handle.told_spec
        if not (await self.capabilities()).native_fork or container.in_memory(told) or not _fits(wanted, told):
            return None
        workdir = str(handle.data["workdir"])
        return await self._engine.run("look at a sandbox's files", lambda: layers.under(self._engine.api, handle.id, workdir))

    async def _children(
        self, handle: SandboxHandle, spec: SandboxSpec, each: Sequence[Mapping[str, str]], under: container.Under | None
    ) -> list[Forked]:
        if under is None:
            return await copying.forked(self, handle, spec, each)
        async with self._maker.several(spec, each, under) as makings:
            return await copying.settled(makings, self)

    async def _with_system(
        self, handle: SandboxHandle, spec: SandboxSpec, each: Sequence[Mapping[str, str]], under: container.Under | None
    ) -> list[Forked]:
        """Children of an image of what the sandbox has changed. It goes with the last of those that need it."""
        api = self._engine.api
        image = await standing.to_its_end(self._engine.run("keep a system", images.of_files, api, handle.id))
        try:
            return await self._children(handle, spec.model_copy(update={"image": image}), each, under)
        finally:
            await self._engine.run("remove an image", images.forget_forks, api, handle.id, image)

    async def snapshot(self, handle: SandboxHandle, labels: Mapping[str, str] | None = None) -> SnapshotHandle:
        """See `SandboxProvider`. It stays until it is deleted; the sandbox stands still while its files are copied."""
        if not is_sandbox_id(handle.id):
            raise SandboxNotFound(f"{handle.id!r} is not the id of a Docker sandbox")
        if not (await self.capabilities()).native_fork:
            return await super().snapshot(handle, labels)
        went_on = not await self._engine.run("look at a sandbox", lambda: lifecycle.is_paused(self._engine.api, handle.id))
        if container.in_memory(handle.told_spec):
            between = copying.only(await copying.forked(self, handle, _on_disk(handle.told_spec), [labels or {}]))
            try:
                return await self.snapshot(between, labels)
            finally:
                await self.destroy(between)
        data = {"workdir": handle.data["workdir"], **{key: handle.data[key] for key in ("mounts", "spec", "untold")}}
        created = lifetime_stamps(handle.told_spec)[0]
        made = SnapshotHandle(self.name, new_snapshot_id(), dict(labels or {}), created, "", data)

        async def keep() -> None:
            work = lambda: snapshots.keep(self._engine.api, handle.id, made)  # noqa: E731
            await standing.to_its_end(self._engine.run("keep a sandbox's files", work))

        try:
            await standing.while_still(self, handle, went_on, keep)
        except BaseException:
            await self.delete_snapshot(made)
            raise
        return made

    async def delete_snapshot(self, snapshot: SnapshotHandle) -> None:
        """See `SandboxProvider`."""
        if is_snapshot_id(snapshot.id):
            await self._engine.run("delete a snapshot", lambda: snapshots.delete(self._engine.api, snapshot.id))
        else:
            await super().delete_snapshot(snapshot)

    async def find_snapshots(self, labels: Mapping[str, str] | None = None) -> list[SnapshotHandle]:
        """See `SandboxProvider`."""
        own = await self._engine.run("list snapshots", lambda: snapshots.find(self._engine.api, labels or {}))
        return [*own, *await super().find_snapshots(labels)]

    async def destroy(self, handle: SandboxHandle) -> None:
        """See `SandboxProvider`."""
        await self._remove(handle.id)

    async def _remove(self, sandbox_id: str) -> None:
        self._maker.lines.drop(sandbox_id)
        await self._engine.run("remove a sandbox", lambda: lifecycle.remove(self._engine.api, sandbox_id))

    async def find(self, labels: Mapping[str, str] | None = None) -> list[SandboxHandle]:
        """See `SandboxProvider`."""
        wanted = [layout.SANDBOX_LABEL, *(f"{layout.USER_LABEL_PREFIX}{key}={value}" for key, value in (labels or {}).items())]
        found = await self._engine.run("list sandboxes", lambda: lifecycle.find(self._engine.api, wanted))
        handles = [_handle(one) for one in found]
        return [handle for handle in handles if (labels or {}).items() <= handle.labels.items()]

    async def aclose(self) -> None:
        """See `SandboxProvider`."""
        self._maker.lines.close()
        await self._engine.aclose()


def _fits(spec: SandboxSpec, parent: SandboxSpec) -> bool:
    """Whether a sandbox can stand on the files of another: on a disk, and as the same user."""
    same = all(getattr(spec, name) == getattr(parent, name) for name in ("user", "image", "system"))
    return same and not container.in_memory(spec)


def _on_disk(spec: SandboxSpec) -> SandboxSpec:
    """A sandbox that holds the same files for a while."""
    return spec.model_copy(update={"resources": spec.resources.model_copy(update={"disk": None}), "mounts": ()})


def _runtimes(info: Mapping[str, Any]) -> list[str]:
    """The engine's runtimes, without those that every engine has."""
    return sorted(name for name in info.get("Runtimes") or {} if name != "runc" and not name.startswith("io.containerd."))


def _can(info: Mapping[str, Any], key: str) -> bool:
    """Whether the engine says so; its spelling of `CpuCfsQuota` has changed over time."""
    return any(bool(value) for name, value in info.items() if name.lower() == key.lower())


def _handle(marks: Mapping[str, str]) -> SandboxHandle:
    prefix = layout.USER_LABEL_PREFIX
    return SandboxHandle(
        DockerProvider.name,
        marks[layout.SANDBOX_LABEL],
        json.loads(marks.get(layout.LABELS_LABEL, "null"))
        or {key.removeprefix(prefix): value for key, value in marks.items() if key.startswith(prefix)},
        marks.get(layout.CREATED_LABEL, ""),
        marks.get(layout.EXPIRES_LABEL, ""),
        {"workdir": marks.get(layout.WORKDIR_LABEL, "/workspace"), **json.loads(marks.get(layout.TOLD_LABEL, "{}"))},
    )
