"""Sandboxes of Modal's cloud."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import modal
from modal.exception import AlreadyExistsError

from sandboxes.errors import InvalidSpec, ProviderUnavailable, SandboxError, SandboxGone, SandboxNotFound, Unsupported
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
    new_sandbox_id,
    new_snapshot_id,
)
from sandboxes.providers.modal import layout, snapshots, tags
from sandboxes.providers.modal.exec import SandboxExec
from sandboxes.providers.modal.platform import Platform
from sandboxes.providers.modal.stream import ExecStream
from sandboxes.sandbox import Sandbox
from sandboxes.toolbox.attached import ToolboxSandbox
from sandboxes.toolbox.bundle import bundle
from sandboxes.toolbox.client import connect
from sandboxes.toolbox.shell import ShellSandbox

DEFAULT_APP: Final = "fanfold"
"""Name of the app that sandboxes belong to."""
DEFAULT_IMAGE: Final = "python:3.12-slim"
LONGEST_SECONDS: Final = 86_400
"""What the platform lets a sandbox live at most."""
BUILD_SECONDS: Final = 900.0
"""How long the platform may take for an image that it has not used before."""
CREATE_SECONDS: Final = 120.0
"""How long the platform may take to answer that a sandbox is made."""
BOOT_SECONDS: Final = 120.0
"""How long a sandbox may take from there to its first answer."""
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
_MEBIBYTE: Final = 1024**2
_VARIABLE: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED: Final = ("/proc", "/sys", "/dev", layout.OWN)
_NOTES: Final = (
    "Modal limits neither the disk nor mounts files of this machine.",
    "A limit of processes holds for root (`system: overlay`) only as far as Modal's kernel counts what root runs.",
)


class ModalProvider(SandboxProvider):
    """Lifecycle of sandboxes in one app of Modal. The SDK takes its key from the environment, or from its own file."""

    name = "modal"

    def __init__(self, default_image: str = DEFAULT_IMAGE, *, app: str = DEFAULT_APP) -> None:
        self._default_image = default_image
        self._platform = Platform(app)
        self._book = snapshots.Book(self._platform)
        self._images: dict[str, modal.Image] = {}

    async def capabilities(self) -> Capabilities:
        """See `SandboxProvider`."""
        await self._platform.app()
        return Capabilities(
            networks=frozenset({"none", "public", "allowlist"}),
            images=True,
            writable_system=True,
            user=True,
            cpu=True,
            memory="sandbox",
            pids=True,
            idle_timeout=True,
            fork_scopes=frozenset({"workspace", "filesystem"}),
            notes=_NOTES,
        )

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
        if from_snapshot is None:
            return await self._make(spec, labels)
        written = await self._book.read(from_snapshot.id)
        if not (image_id := str(written.data.get("image") or "")):
            raise SandboxNotFound(f"Modal snapshot {written.id} was never finished: delete it")
        kept, image = written.told_spec, modal.Image.from_id(image_id, client=await self._platform.client())
        if _fits(spec, kept):
            return await self._make(spec, labels, image)
        # Who is another user, or of another image, gets the files from a sandbox that is not.
        between = await self._make(kept, labels, image)
        try:
            return copying.only(await copying.forked(self, between, spec, [labels or {}]))
        finally:
            await self.destroy(between)

    async def _make(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None, copied: modal.Image | None = None
    ) -> SandboxHandle:
        """Make a sandbox of the spec's image, or of a copy of another one's files."""
        sandbox_id = new_sandbox_id()
        created_at, expires_at = lifetime_stamps(spec)
        told = {"id": sandbox_id, "labels": dict(labels or {}), "created_at": created_at, "expires_at": expires_at}
        marks = {**tags.labels_as_tags(labels or {}), **tags.packed({**told, "workdir": spec.workdir, **spec.told()})}
        image = copied or await self._image(spec.image or self._default_image)
        await self._started(sandbox_id, spec, self._asked(sandbox_id, spec, image, marks, inherited=copied is not None))
        try:
            transport = await self._install(sandbox_id)
        except BaseException:
            await asyncio.shield(self._platform.terminate(sandbox_id))
            raise
        data = {"transport": transport, "workdir": spec.workdir, **spec.told()}
        return SandboxHandle(self.name, sandbox_id, dict(labels or {}), created_at, expires_at, data)

    async def _image(self, name: str) -> modal.Image:
        """An image of a registry, or of Modal by its id (`im-...`); built once for each provider."""
        if name not in self._images:
            client, app = await self._platform.client(), await self._platform.app()
            if name.startswith("im-"):
                self._images[name] = modal.Image.from_id(name, client=client)
            else:
                building = modal.Image.from_registry(name).build.aio(app)
                self._images[name] = await self._platform.ask(f"get the image {name!r}", building, BUILD_SECONDS)
        return self._images[name]

    async def _asked(
        self, sandbox_id: str, spec: SandboxSpec, image: modal.Image, marks: dict[str, str], *, inherited: bool
    ) -> modal.Sandbox:
        """The request for a sandbox. Its name is its id: so there is never a second one, however often this is asked."""
        client = await self._platform.client()
        limits = spec.resources
        memory = None if limits.memory is None else math.ceil(limits.memory / _MEBIBYTE)
        try:
            return await modal.Sandbox.create.aio(
                *layout.boot(sandbox_id, spec, inherited=inherited),
                app=await self._platform.app(),
                name=sandbox_id,
                tags=marks,
                image=image,
                secrets=[modal.Secret.from_dict({"HOME": layout.HOME, **spec.env})],
                timeout=math.ceil(spec.lifetime),
                cpu=None if limits.cpu is None else (limits.cpu, limits.cpu),
                memory=None if memory is None else (memory, memory),
                block_network=spec.network == "none",
                outbound_domain_allowlist=list(spec.allowed_hosts) if spec.network == "allowlist" else None,
                client=client,
            )
        except AlreadyExistsError:  # the answer to an earlier try was lost
            return await self._platform.look_up(sandbox_id)

    async def _started(self, sandbox_id: str, spec: SandboxSpec, asked: Awaitable[modal.Sandbox]) -> None:
        """Await a request for a sandbox. When this raises, there is none."""
        asking = asyncio.ensure_future(self._platform.ask("make a sandbox", asked, CREATE_SECONDS))
        try:
            self._platform.met(sandbox_id, await asyncio.shield(asking))
        except ProviderUnavailable as exc:
            if type(exc) is not ProviderUnavailable or not await self._was_made(sandbox_id):
                raise
        except asyncio.CancelledError:
            # It may have been sent: what it makes is known only at its end.
            await asyncio.wait([asking])
            with contextlib.suppress(Exception):
                asking.result()
                await self._platform.terminate(sandbox_id)
            raise
        except SandboxNotFound as exc:
            raise SandboxNotFound(f"the image that the sandbox was to be made of is gone from Modal: {exc}") from exc

    async def _was_made(self, sandbox_id: str) -> bool:
        """Whether a sandbox is there whose making was not confirmed. When that cannot be known, it ends unclaimed."""
        try:
            self._platform.met(sandbox_id, await self._platform.look_up(sandbox_id))
        except (SandboxError, ProviderUnavailable):
            return False
        return True

    async def _install(self, sandbox_id: str) -> str:
        """Bring the toolbox in; the transport that the sandbox needs."""
        run = SandboxExec(self._platform, sandbox_id, root=True)
        argv = layout.install(sandbox_id, len(bundle()))
        answer = await run(argv, bundle(), deadline=BOOT_SECONDS, cap=4096)
        return _transport(answer.stdout, answer.stderr)

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
        return _transport(answer.stdout, answer.stderr)

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
        with_system = scope == "filesystem"
        if not _fits(wanted, handle.told_spec) or (wanted.system == "overlay" and not with_system):
            if with_system and wanted.system == "overlay":
                raise Unsupported("modal forks the filesystem only to the same `user`, `image` and `workdir`")
            return await copying.forked(self, handle, wanted, each)
        seconds = math.ceil(wanted.lifetime) + FORK_KEPT_SECONDS
        image = await snapshots.image_of(self._platform, handle.id, seconds=seconds)
        return await copying.settled([self._make(wanted, one, image) for one in each], self)

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


def _transport(stdout: bytes, stderr: str) -> str:
    transport = stdout.decode("utf-8", "replace").strip()
    if transport not in ("helper", "sh"):
        why = transport.removeprefix("failed: ") or stderr.strip() or "it said nothing"
        raise SandboxError(f"the Modal sandbox has not come up: {why[:500]}")
    return transport


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
