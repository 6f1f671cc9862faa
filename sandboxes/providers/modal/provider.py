"""Sandboxes of Modal's cloud."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import modal

from sandboxes.errors import InvalidSpec, SandboxError, SandboxGone, SandboxNotFound, Unsupported
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
)
from sandboxes.providers.context import prepared
from sandboxes.providers.ids import new_snapshot_id
from sandboxes.providers.modal import building, layout, making, snapshots, tags
from sandboxes.providers.modal.exec import SandboxExec
from sandboxes.providers.modal.platform import Platform
from sandboxes.providers.modal.stream import ExecStream
from sandboxes.sandbox import Sandbox
from sandboxes.toolbox.attached import ToolboxSandbox
from sandboxes.toolbox.client import connect
from sandboxes.toolbox.shell import ShellSandbox

DEFAULT_APP: Final = "fanfold"
"""Name of the app that sandboxes belong to."""
DEFAULT_IMAGE: Final = "python:3.12-slim"
LONGEST_SECONDS: Final = 86_400
"""What the platform lets a sandbox live at most."""
ATTACH_SECONDS: Final = 30.0
"""How long attaching may take."""
FORK_KEPT_SECONDS: Final = 3600
"""How much longer than the children of a fork live the platform keeps the image that they were made of."""
ATTACH_TRIES: Final = 3
"""How often a helper is called that hangs up: it may just have been killed, and be started again."""
ATTACH_PAUSE: Final = 0.5
"""Seconds between two of these."""
LISTED_AT_ONCE: Final = 16
"""Sandboxes whose tags are asked for at the same time."""
_VARIABLE: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED: Final = ("/proc", "/sys", "/dev", layout.OWN)
_NOTES: Final = (
    "Modal limits neither the disk nor mounts files of this machine.",
    "A limit of processes holds for root (`system: overlay`) only as far as Modal's kernel counts what root runs.",
)


class ModalProvider(SandboxProvider):
    """Lifecycle of sandboxes in one app of Modal. The SDK takes its key from the environment, or from its own file."""

    name = making.PROVIDER
    isolation = "machine"
    declared = Capabilities(
        networks=frozenset({"none", "public", "allowlist"}),
        images=True,
        dockerfile=True,
        writable_system=True,
        user=True,
        cpu=True,
        memory="sandbox",
        pids=True,
        idle_timeout=True,
        fork_scopes=frozenset({"workspace", "filesystem"}),
        notes=_NOTES,
    )

    def __init__(self, default_image: str = DEFAULT_IMAGE, *, app: str = DEFAULT_APP) -> None:
        self._default_image = default_image
        self._platform = Platform(app)
        self._maker = making.Maker(self._platform, default_image)
        self._book = snapshots.Book(self._platform)

    async def capabilities(self) -> Capabilities:
        """See `SandboxProvider`."""
        await self._platform.app()
        return self.declared

    async def check(self, spec: SandboxSpec) -> None:
        """See `SandboxProvider`."""
        await super().check(spec)
        if spec.lifetime > LONGEST_SECONDS:
            raise Unsupported(f"provider 'modal' ends every sandbox after {LONGEST_SECONDS} s: `lifetime` is {spec.lifetime:g}")
        if spec.system == "read-only" and (spec.user or "").partition(":")[0] in ("0", "root"):
            raise Unsupported(
                "provider 'modal' cannot keep root from writing the system: ask for `system: overlay`, or no user"
            )
        if spec.workdir == "/" or any(spec.workdir == one or spec.workdir.startswith(f"{one}/") for one in _RESERVED):
            raise InvalidSpec(f"workdir {spec.workdir}: choose a path that is not /, {', '.join(_RESERVED)} or below these")
        if spec.network == "allowlist" and not spec.allowed_hosts:
            raise InvalidSpec("`network: allowlist` needs allowed_hosts; `network: none` lets nothing through")
        if unfit := [key for key in spec.env if not _VARIABLE.fullmatch(key)]:
            raise InvalidSpec(f"env: Modal takes no variable called {unfit[0]!r}: letters, digits and underscores alone")

    async def create(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None = None, *, from_snapshot: SnapshotHandle | None = None
    ) -> SandboxHandle:
        """See `SandboxProvider`."""
        await self.check(spec)
        spec = await self._with_image(spec)
        if from_snapshot is None:
            return await self._maker.make(spec, labels)
        written = await self._book.read(from_snapshot.id)
        if not (image_id := str(written.data.get("image") or "")):
            raise SandboxNotFound(f"Modal snapshot {written.id} was never finished: delete it")
        kept, image = written.told_spec, modal.Image.from_id(image_id, client=await self._platform.client())
        if _fits(spec, kept):
            return await self._maker.make(spec, labels, image)
        # Who is another user, or of another image, gets the files from a sandbox that is not.
        between = await self._maker.make(kept, labels, image)
        try:
            return copying.only(await copying.forked(self, between, spec, [labels or {}]))
        finally:
            await self.destroy(between)

    async def _with_image(self, spec: SandboxSpec) -> SandboxSpec:
        """The spec with the image that its Dockerfile makes. Raises `InvalidSpec`, `Unsupported` or `ImageBuildFailed`."""
        if spec.dockerfile is None:
            return spec
        async with prepared(spec) as build:
            return spec.model_copy(update={"image": await building.built(self._platform, build), "dockerfile": None})

    async def attach(self, handle: SandboxHandle) -> Sandbox:
        """See `SandboxProvider`."""
        held = await self._platform.use(handle.id)
        try:
            transport = handle.data.get("transport") or await self._told_transport(handle.id)
            workdir = str(handle.data.get("workdir") or "/workspace")
            if transport == "sh":
                return await self._attach_shell(handle.id, workdir, held)
            return await self._attach_helper(handle.id, workdir, held)
        except BaseException:
            await held.aclose()
            raise

    async def _told_transport(self, sandbox_id: str) -> str:
        """Ask the sandbox what its boot script found out; for handles that come from `find`."""
        run = SandboxExec(self._platform, sandbox_id)
        answer = await run(layout.transport(sandbox_id), deadline=ATTACH_SECONDS, cap=4096)
        return making.read_transport(answer.stdout, answer.stderr)

    async def _attach_shell(self, sandbox_id: str, workdir: str, held: contextlib.AsyncExitStack) -> Sandbox:
        run, state = SandboxExec(self._platform, sandbox_id), layout.state(sandbox_id)
        try:
            made = await _Shell.attach(run, sandbox_id=sandbox_id, workdir=workdir, state=state)
        except SandboxError:
            await self._platform.raise_if_ended(sandbox_id)
            raise
        assert isinstance(made, _Shell)
        made.held = held
        return made

    async def _attach_helper(self, sandbox_id: str, workdir: str, held: contextlib.AsyncExitStack) -> Sandbox:
        for tries_left in reversed(range(ATTACH_TRIES)):
            stream = await self._connected(sandbox_id)
            try:
                client = await connect(stream.sock, deadline=ATTACH_SECONDS)
            except BaseException as exc:
                said = await stream.complaint() if isinstance(exc, SandboxError) else ""
                await stream.aclose()
                if not isinstance(exc, SandboxError):
                    raise
                await self._platform.raise_if_ended(sandbox_id)
                if not tries_left or not isinstance(exc, SandboxGone):
                    why = said or exc
                    raise SandboxError(f"the helper of Modal sandbox {sandbox_id} does not answer: {why}") from exc
                await asyncio.sleep(ATTACH_PAUSE)
            else:
                held.push_async_callback(stream.aclose)
                return ToolboxSandbox(client, sandbox_id=sandbox_id, workdir=workdir, on_close=held.aclose)
        raise AssertionError("the last try returns or raises")

    async def _connected(self, sandbox_id: str) -> ExecStream:
        run = SandboxExec(self._platform, sandbox_id, root=True)  # `connect` itself takes the sandbox's user
        return ExecStream(await run.start(layout.connect(sandbox_id)))

    async def fork(
        self,
        handle: SandboxHandle,
        count: int,
        *,
        spec: SandboxSpec | None = None,
        labels: Labels = None,
        scope: Scope = "workspace",
    ) -> list[Forked]:
        """See `SandboxProvider`. All files are kept once, as an image; a workspace without its changed system is copied."""
        await self._platform.raise_if_ended(handle.id)  # the SDK would wait for what has ended to begin
        wanted, each = await self.check_fork(handle, count, spec, labels, scope)
        wanted = await self._with_image(wanted)
        with_system = scope == "filesystem"
        if not _fits(wanted, handle.told_spec) or (wanted.system == "overlay" and not with_system):
            if with_system and wanted.system == "overlay":
                raise Unsupported("modal forks the filesystem only to the same `user`, `image` and `workdir`")
            return await copying.forked(self, handle, wanted, each)
        seconds = math.ceil(wanted.lifetime) + FORK_KEPT_SECONDS
        image = await snapshots.image_of(self._platform, handle.id, seconds=seconds)
        return await copying.settled([self._maker.make(wanted, one, image) for one in each], self)

    async def snapshot(self, handle: SandboxHandle, labels: Mapping[str, str] | None = None) -> SnapshotHandle:
        """See `SandboxProvider`. It is kept for `snapshots.KEPT_SECONDS`."""
        await self._platform.raise_if_ended(handle.id)
        told = handle.told_spec
        if told.system == "overlay":  # of which only the working directory is to be kept
            plain = told.model_copy(update={"system": "read-only", "user": None})
            between = copying.only(await copying.forked(self, handle, plain, [labels or {}]))
            try:
                return await self.snapshot(between, labels)
            finally:
                await self.destroy(between)
        made = _snapshot(self.name, handle, labels or {}, image="")
        keeping = asyncio.ensure_future(self._keep(handle, made))
        try:
            return await asyncio.shield(keeping)
        except BaseException:
            await asyncio.wait([keeping])  # what it makes is known only at its end
            await self._book.delete(made.id)
            raise

    async def _keep(self, handle: SandboxHandle, made: SnapshotHandle) -> SnapshotHandle:
        await self._book.write(made)
        image = await snapshots.image_of(self._platform, handle.id, seconds=snapshots.KEPT_SECONDS)
        kept = SnapshotHandle(**{**made.to_json(), "data": {**made.data, "image": image.object_id}})
        await self._book.write(kept)
        return kept

    async def delete_snapshot(self, snapshot: SnapshotHandle) -> None:
        """See `SandboxProvider`."""
        await self._book.delete(snapshot.id)

    async def find_snapshots(self, labels: Mapping[str, str] | None = None) -> list[SnapshotHandle]:
        """See `SandboxProvider`."""
        return [one for one in await self._book.all() if (labels or {}).items() <= one.labels.items()]

    async def destroy(self, handle: SandboxHandle) -> None:
        """See `SandboxProvider`."""
        await self._platform.terminate(handle.id)

    async def find(self, labels: Mapping[str, str] | None = None) -> list[SandboxHandle]:
        """See `SandboxProvider`. The platform lists those that run: of one that has ended nothing is left to be destroyed."""
        client, app = await self._platform.client(), await self._platform.app()
        wanted = tags.labels_as_tags(labels or {})

        async def listed() -> list[modal.Sandbox]:
            return [one async for one in modal.Sandbox.list.aio(app_id=app.app_id, tags=wanted, client=client)]

        found = await self._platform.ask("list sandboxes", listed())
        room = asyncio.Semaphore(LISTED_AT_ONCE)

        async def told(sandbox: modal.Sandbox) -> SandboxHandle | None:
            async with room:
                return _handle(await self._platform.tags_of(sandbox))

        handles = await asyncio.gather(*(told(one) for one in found))
        return [one for one in handles if one is not None and (labels or {}).items() <= one.labels.items()]

    async def aclose(self) -> None:
        """See `SandboxProvider`."""
        await self._platform.aclose()


class _Shell(ShellSandbox):
    """An attached sandbox without Python, which lets go of its connection when it is closed."""

    held: contextlib.AsyncExitStack

    async def aclose(self) -> None:
        """See `Sandbox`."""
        await super().aclose()
        await self.held.aclose()


def _fits(spec: SandboxSpec, parent: SandboxSpec) -> bool:
    """Whether a sandbox can be made of all files of another: the same places, the same user, the same system."""
    return all(getattr(spec, name) == getattr(parent, name) for name in ("user", "image", "system", "workdir"))


def _handle(marks: Mapping[str, str]) -> SandboxHandle | None:
    told = tags.unpacked(marks)
    try:
        if told is None:
            return None
        data = {key: value for key, value in told.items() if key not in ("id", "labels", "created_at", "expires_at")}
        return SandboxHandle(ModalProvider.name, told["id"], told["labels"], told["created_at"], told["expires_at"], data)
    except KeyError:
        return None


def _snapshot(name: str, handle: SandboxHandle, labels: Mapping[str, str], **data: Any) -> SnapshotHandle:
    now = datetime.now(UTC)
    ends = now + timedelta(seconds=snapshots.KEPT_SECONDS)
    told = {key: handle.data[key] for key in ("workdir", "mounts", "spec", "untold")}
    return SnapshotHandle(name, new_snapshot_id(), dict(labels), now.isoformat(), ends.isoformat(), {**told, **data})
