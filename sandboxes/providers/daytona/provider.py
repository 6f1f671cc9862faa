"""Sandboxes of an account on Daytona."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeVar

from daytona import AsyncDaytona, AsyncSandbox, DaytonaError, ListSandboxesQuery

from sandboxes.errors import FanfoldSandboxError, ImageNotFound, SandboxError, SandboxGone, SandboxNotFound, Unsupported
from sandboxes.providers import copying
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
from sandboxes.providers.daytona import boot, building, forks, making, names, records
from sandboxes.providers.daytona.account import Account
from sandboxes.providers.daytona.errors import translated
from sandboxes.providers.daytona.exec import PlatformExec
from sandboxes.providers.daytona.live import own_folder, raise_if_ended, raise_if_ending, run
from sandboxes.providers.daytona.terminal import TerminalLink
from sandboxes.providers.ids import is_sandbox_id, is_snapshot_id, new_sandbox_id, new_snapshot_id
from sandboxes.sandbox import Sandbox
from sandboxes.toolbox.attached import ToolboxSandbox
from sandboxes.toolbox.client import connect
from sandboxes.toolbox.shell import ShellSandbox

ATTACH_SECONDS: Final = 30.0
"""How long attaching may take."""
CLEANUP_SECONDS: Final = 60.0
"""How long a making that was given up may go on, so that what it has asked for is there and can be removed."""
_NOTES: Final = (
    "Daytona counts in whole cores and GiB.",
    "A user of its own and mounts cannot be given to a sandbox: the image's user counts, or a plain one instead of root.",
    "Virtual machines are forked by the platform; other sandboxes through a snapshot, or by copying their workspace.",
    "`pids` holds for each sandbox's user, as far as the image has one other than root.",
)

T = TypeVar("T")


class DaytonaProvider(SandboxProvider):
    """Lifecycle of sandboxes on Daytona. What is not given comes from `DAYTONA_API_KEY`, `DAYTONA_API_URL`, `DAYTONA_TARGET`.

    `default_image` is an image, or `snapshot:NAME` of the account; empty is the platform's default snapshot.
    """

    name = records.NAME
    isolation = "machine"
    declared = Capabilities(
        networks=frozenset({"none", "public", "allowlist"}),
        images=True,
        dockerfile=True,
        writable_system=True,
        cpu=True,
        memory="sandbox",
        pids=True,
        disk=True,
        whole=True,
        idle_timeout=True,
        fork_scopes=frozenset({"workspace", "filesystem"}),
        notes=_NOTES,
    )

    def __init__(
        self,
        default_image: str = "",
        *,
        api_key: str | None = None,
        api_url: str | None = None,
        target: str | None = None,
    ) -> None:
        self._default_image = default_image
        self._account = Account(api_key, api_url, target)

    async def capabilities(self) -> Capabilities:
        """See `SandboxProvider`. What the platform documents; it cannot be asked."""
        await self._account.there(self._account.connected())
        return self.declared

    async def check(self, spec: SandboxSpec) -> None:
        """See `SandboxProvider`."""
        await super().check(spec)
        records.check_spec(spec)

    async def create(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None = None, *, from_snapshot: SnapshotHandle | None = None
    ) -> SandboxHandle:
        """See `SandboxProvider`."""
        await self.check(spec)
        if from_snapshot is not None and not is_snapshot_id(from_snapshot.id):
            return await copying.restored(self, from_snapshot, spec, labels)
        async with building.built(spec) as (named, image):
            if from_snapshot is None:
                return await self.made(named, labels or {}, built=image)
        name = names.checked(from_snapshot)
        if forks.fits(named, from_snapshot.told_spec):
            return await self.made(named, labels or {}, snapshot=name)
        between = await self.made(from_snapshot.told_spec, labels or {}, snapshot=name)
        try:
            return copying.only(await copying.forked(self, between, spec, [labels or {}]))
        finally:
            await self.destroy(between)

    async def made(
        self, spec: SandboxSpec, labels: Mapping[str, str], *, snapshot: str | None = None, built: building.Built | None = None
    ) -> SandboxHandle:
        """A new sandbox, with the files of a snapshot or of an image to be built. When this raises, or is cancelled, nothing
        is left."""
        plan = records.Plan(new_sandbox_id(), dict(labels), *lifetime_stamps(spec), snapshot=snapshot)
        wanted = records.params(spec, plan, self._default_image, None if built is None else built.image)

        async def make() -> SandboxHandle:
            image = spec.image or self._default_image or "(the default snapshot)"
            try:
                made = await making.make(self._account, plan.id, wanted, image, built)
            except ImageNotFound as exc:
                if snapshot is not None:
                    raise SandboxNotFound(f"Daytona has no snapshot {snapshot} any more") from exc
                raise
            return await self.adopted(made, spec, plan, copied=snapshot is not None)

        return await self.all_or_nothing(make(), [plan.id])

    async def adopted(self, made: AsyncSandbox, spec: SandboxSpec, plan: records.Plan, *, copied: bool) -> SandboxHandle:
        """Boot a sandbox of the platform; its handle."""
        transport = await boot.install(self._account, made, plan.id, boot.Boot(spec, copied))
        self._account.meet(made)
        data = records.data(spec, transport)
        return SandboxHandle(self.name, plan.id, dict(plan.labels), plan.created_at, plan.expires_at, data)

    async def all_or_nothing(self, work: Awaitable[T], names: Sequence[str]) -> T:
        """Do what makes sandboxes of these names. When it fails or is cancelled, they are removed, however late they come."""
        task = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(task)
        except BaseException:
            if not task.done():
                await asyncio.wait([task], timeout=CLEANUP_SECONDS)
                task.cancel()
            for name in names:
                with contextlib.suppress(FanfoldSandboxError):
                    await making.remove(self._account, name)
            raise

    async def attach(self, handle: SandboxHandle) -> Sandbox:
        """See `SandboxProvider`."""
        found = self._account.take(handle.id) or await self.running(handle)
        workdir = str(handle.data.get("workdir") or "/workspace")
        transport = handle.data.get("transport") or await self._transport(found, handle.id)
        if transport == "sh":
            exec_ = PlatformExec(self._account, found, handle.id)
            state = f"{own_folder(handle.id)}/state/sh"
            sandbox: Sandbox = await ShellSandbox.attach(exec_, sandbox_id=handle.id, workdir=workdir, state=state)
        else:
            sandbox = await self._attach_helper(found, handle.id, workdir)
        sandbox.mounts = handle.mounts
        self._account.meet(found)
        return sandbox

    async def running(self, handle: SandboxHandle) -> AsyncSandbox:
        """The platform's sandbox of a handle. Raises `SandboxNotFound`, or `SandboxGone` with the reason."""
        if not is_sandbox_id(handle.id):
            raise SandboxNotFound(f"{handle.id!r:.80} is not the id of a Daytona sandbox")
        return await raise_if_ended(self._account, handle.id)

    async def _transport(self, found: AsyncSandbox, sandbox_id: str) -> str:
        """Ask the sandbox what its boot script found out; for handles that come from `find`."""
        answer = await run(self._account, found, f"cat {own_folder(sandbox_id)}/transport", deadline=ATTACH_SECONDS)
        transport = answer.result.strip()
        if transport not in ("helper", "sh"):
            raise SandboxError(f"the sandbox has not come up: its transport is {transport[:200]!r}")
        return transport

    async def _attach_helper(self, found: AsyncSandbox, sandbox_id: str, workdir: str) -> Sandbox:
        link = TerminalLink(boot.connect_command(sandbox_id))
        try:
            sock = await self._account.there(link.open(found, ATTACH_SECONDS))
        except SandboxGone:
            await raise_if_ended(self._account, sandbox_id)
            raise
        except (DaytonaError, OSError) as exc:
            await raise_if_ending(self._account, sandbox_id)
            raise translated(exc, "open a terminal") from exc

        async def close() -> None:
            await self._account.there(link.aclose())

        try:
            client = await connect(sock, deadline=ATTACH_SECONDS)
        except BaseException:
            await close()
            raise
        return ToolboxSandbox(client, sandbox_id=sandbox_id, workdir=workdir, on_close=close)

    async def destroy(self, handle: SandboxHandle) -> None:
        """See `SandboxProvider`."""
        if is_sandbox_id(handle.id):
            await making.remove(self._account, handle.id)

    async def find(self, labels: Mapping[str, str] | None = None) -> list[SandboxHandle]:
        """See `SandboxProvider`. All of ours are listed: a fork that was cut off has its parent's labels on the platform."""

        async def listed(client: AsyncDaytona) -> list[SandboxHandle]:
            found = [one async for one in client.list(ListSandboxesQuery(labels=dict(records.OURS)))]
            there = [one for one in found if one.state is None or one.state.value not in ("destroyed", "destroying")]
            handles = [records.handle(one.name, one.labels) for one in there]
            return [one for one in handles if one is not None and (labels or {}).items() <= one.labels.items()]

        return await self._account.run("list sandboxes", listed)

    async def fork(
        self,
        handle: SandboxHandle,
        count: int,
        *,
        spec: SandboxSpec | None = None,
        labels: Labels = None,
        scope: Scope = "workspace",
    ) -> list[Forked]:
        """See `SandboxProvider`. The platform's own fork, or a snapshot, or a copy: the first of these that can be had."""
        if not is_sandbox_id(handle.id):
            raise SandboxNotFound(f"{handle.id!r:.80} is not the id of a Daytona sandbox")
        wanted, each = await self.check_fork(handle, count, spec, labels, scope)
        told = handle.told_spec
        async with building.built(wanted) as (named, _):
            pass
        whole = scope == "filesystem" and told.system == "overlay"
        if not forks.fits(named, told) or (told.system == "overlay" and not whole):
            if whole:
                raise Unsupported("daytona forks the filesystem only into a sandbox like its parent")
            return await copying.forked(self, handle, wanted, each)
        parent = await self.running(handle)
        made = await forks.native(self, self._account, parent, named, each)
        if made is None:
            made = await forks.by_snapshot(self, self._account, parent, named, each)
        if made is None and whole:
            raise Unsupported("Daytona can neither fork nor keep this sandbox: its workspace alone can be copied")
        return await copying.forked(self, handle, wanted, each) if made is None else made

    async def snapshot(self, handle: SandboxHandle, labels: Mapping[str, str] | None = None) -> SnapshotHandle:
        """See `SandboxProvider`. The platform keeps all files of the sandbox; it stays until it is deleted."""
        parent = await self.running(handle)
        data = {"workdir": handle.data["workdir"], **{key: handle.data[key] for key in ("mounts", "spec", "untold")}}
        created = lifetime_stamps(handle.told_spec)[0]
        made = SnapshotHandle(self.name, new_snapshot_id(), dict(labels or {}), created, "", data)
        name = names.name_of(made)
        if name is None or not await forks.kept(self._account, parent, name):
            return await super().snapshot(handle, labels)
        return SnapshotHandle(**{**made.to_json(), "data": {**data, "snapshot": name}})

    async def delete_snapshot(self, snapshot: SnapshotHandle) -> None:
        """See `SandboxProvider`."""
        if is_snapshot_id(snapshot.id):
            await making.forget(self._account, names.checked(snapshot))
        else:
            await super().delete_snapshot(snapshot)

    async def find_snapshots(self, labels: Mapping[str, str] | None = None) -> list[SnapshotHandle]:
        """See `SandboxProvider`."""
        own = [names.handle_of(self.name, name, made) for name, made in await forks.snapshots(self._account)]
        found = [one for one in own if one is not None and (labels or {}).items() <= one.labels.items()]
        return [*found, *await super().find_snapshots(labels)]

    async def sweep(self) -> None:
        """See `SandboxProvider`."""
        await forks.sweep(self._account)

    async def aclose(self) -> None:
        """See `SandboxProvider`."""
        await self._account.aclose()
