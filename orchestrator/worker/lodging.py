"""The sandbox of a run: made, filled and noted down; adopted from a worker that is gone; left to another one, or ended."""

from __future__ import annotations

import asyncio
import posixpath
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from orchestrator.errors import InfrastructureError
from orchestrator.runs.files import RESERVED
from orchestrator.runs.keeping import Keeping
from orchestrator.runs.labels import RUN_LABEL, sandbox_labels
from orchestrator.runs.models import Artifact
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.choosing import Choosing
from orchestrator.worker.deferred import DeferredSandbox
from orchestrator.worker.inputs import Inputs, placed_inputs
from orchestrator.worker.meter import Meter
from sandboxes.errors import SandboxGone, SandboxNotFound
from sandboxes.providers.base import SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.sandbox import CommandSpec, Sandbox

DESTROY_TIMEOUT = 60.0
"""Seconds for destroying a sandbox; one that is left is found by its labels."""
SNAPSHOT_CAP = 4 * 1024**3
"""Bytes of a working directory that is stored while a person is asked."""
PIECE = 1024 * 1024
"""Bytes that are read from the frozen inputs at once."""
CLOSED_PREFIX = "fanfold-closed-"
"""Begins the name of a folder of this machine with what is laid over closed places of a run's sandbox."""


class Lodging:
    """The sandbox of one attempt: `enter` it, then either `leave` it as it is or `clear` it."""

    def __init__(self, work: Assignment, number: int, meter: Meter) -> None:
        self.resumed = False
        """Whether the task may have begun in it before this attempt."""
        self._work = work
        self._number = number
        self._meter = meter
        self._choosing = Choosing(work)
        self._handle: SandboxHandle | None = None
        self._noted = True
        """Whether the record knows of the sandbox, as far as we have been told."""
        self._sandbox: Sandbox | None = None
        self._deferred: DeferredSandbox | None = None
        self._inputs: Inputs | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nobody has used the sandbox, and so there is none."""
        return self._handle is None and self._deferred is not None and not self._deferred.begun

    @property
    def expires_at(self) -> datetime | None:
        """When its lifetime ends; None when it has none."""
        return datetime.fromisoformat(self._handle.expires_at) if self._handle and self._handle.expires_at else None

    @property
    def provider(self) -> SandboxProvider:
        """Whose sandbox it is, or is going to be. Raises `ProviderUnavailable` when what it needs is not installed."""
        return self._work.origin.provider if self._work.origin is not None else self._choosing.provider

    @property
    def handle(self) -> SandboxHandle:
        """The handle of the sandbox, once there is one."""
        assert self._handle is not None, "there is no sandbox yet"
        return self._handle

    @property
    def inputs(self) -> Path:
        """The archive from which closed places of the sandbox are filled; it need not exist."""
        return self._work.origin.inputs if self._work.origin else self._work.folder.input_tar

    async def enter(self, *, forked: bool = False) -> Sandbox:
        """The sandbox, with all in it that the task begins with. It may be made when it is first used: see `_may_wait`.

        `forked` says that it may stand still, because forks of it go on: then nobody connects to it until it is used.

        Raises an error of the `sandboxes` package, or `InfrastructureError` when the one that there was is gone, and the task
        says that it is not to begin again.
        """
        work = self._work
        if forked and work.run.sandbox is not None:
            self._handle, self.resumed = SandboxHandle.from_json(work.run.sandbox), True
            self._meter.enter()
            self._deferred = DeferredSandbox(work.spec.sandbox.workdir, self._enter)
            return self._deferred
        if not self._may_wait:
            return await self._enter()
        self.resumed = work.run.sandbox_ready
        await self._choosing.check(await self.spec())
        await asyncio.to_thread(work.store.set_ready, work.lease)
        self._deferred = DeferredSandbox(work.spec.sandbox.workdir, self._enter)
        return self._deferred

    @property
    def _may_wait(self) -> bool:
        """Whether nobody but the agent's tools has to do with the sandbox, and there is none yet."""
        spec, run = self._work.spec, self._work.run
        others = spec.inputs or spec.closed or spec.command or spec.verify or spec.outputs.files or spec.wants_patch
        return spec.agent is not None and not others and run.sandbox is None and self._snapshot is None

    async def _enter(self) -> Sandbox:
        work = self._work
        adopted = await self._adopted()
        self.resumed = self.resumed or adopted is not None or self._snapshot is not None
        sandbox = adopted or await self._made()
        sandbox.mounts = work.spec.closed  # what is hidden is an empty place laid over it: see `placed_inputs`
        sandbox.leaves_commands = True  # until the run itself is to stop: whatever happens to us, another worker goes on
        self._sandbox = sandbox
        if adopted is None or not work.run.sandbox_ready:
            await self._fill(sandbox)
        return sandbox

    @property
    def _snapshot(self) -> str | None:
        """What the workspace was when the run was interrupted; only the first attempt of a claim can go on with it."""
        return self._work.run.snapshot if self._number == self._work.run.attempt else None

    async def _adopted(self) -> Sandbox | None:
        """The sandbox of a worker that is gone; None when there is none to go on with."""
        work = self._work
        if work.run.sandbox is None or self._number != work.run.attempt:
            return None
        handle = SandboxHandle.from_json(work.run.sandbox)
        self._meter.enter()
        try:
            if work.spec.pauses:
                await self.provider.resume(handle)
            sandbox = await self.provider.attach(handle)
        except (SandboxNotFound, SandboxGone) as exc:
            await self._take_loss(handle, exc)
            return None
        self._handle = handle
        await asyncio.to_thread(work.store.set_sandbox, work.lease, handle.to_json(), ready=work.run.sandbox_ready)
        work.recorder.emit("sandbox.adopted", {"id": handle.id, "provider": handle.provider})
        return sandbox

    async def _take_loss(self, handle: SandboxHandle, reason: Exception) -> None:
        work = self._work
        if work.spec.sandbox.on_loss == "fail" and work.run.sandbox_ready:
            raise InfrastructureError(
                f"sandbox {handle.id} is gone, and the run is not done: {reason} (sandbox.on_loss: fail)"
            ) from reason
        self._handle = None
        if not work.run.sandbox_ready:
            work.recorder.log("warning", f"sandbox {handle.id} is gone before the task began in it: another one is made")
            return
        work.recorder.log("warning", f"sandbox {handle.id} is gone: the run begins again from its inputs")
        await asyncio.to_thread(work.store.start_over, work.lease)
        work.begin_again(self._number)

    async def _made(self) -> Sandbox:
        """A fresh sandbox."""
        work = self._work
        self._meter.enter()
        spec, labels = await self.spec(), await self.labels()
        self._noted = False
        self._handle = await (self._forked(spec, labels) if work.origin else self._choosing.make(spec, labels))
        await asyncio.to_thread(work.store.set_sandbox, work.lease, self._handle.to_json())
        self._noted = True
        work.recorder.emit("sandbox.created", {"id": self._handle.id, "provider": self._handle.provider})
        return await self.provider.attach(self._handle)

    async def _forked(self, spec: SandboxSpec, labels: Mapping[str, str]) -> SandboxHandle:
        """A sandbox where the parent's is: a fork is never somewhere else."""
        work, provider = self._work, self.provider
        assert work.origin is not None, "a run without a parent has nothing to be forked from"
        await provider.check(spec)
        with work.telemetry.metrics.sandbox_starting(provider.name):
            return await work.origin.create(spec, labels)

    async def spec(self) -> SandboxSpec:
        """What is asked for, with the environment: the sandbox, and what is made like it."""
        work, inputs = self._work, await self._placed_inputs()
        spec = work.spec.sandbox_spec(work.folder.image_tar)
        return spec.model_copy(update={"env": {**spec.env, **work.secrets.env}, "mounts": inputs.mounts})

    async def labels(self) -> dict[str, str]:
        """Of every sandbox of this attempt."""
        return sandbox_labels(await asyncio.to_thread(self._work.store.installation), self._work.run.id, self._number)

    async def _placed_inputs(self) -> Inputs:
        """The frozen inputs as they enter the sandbox; what is made for them is removed with it."""
        if self._inputs is None:
            self._inputs = await asyncio.to_thread(self._place_inputs)
        return self._inputs

    def _place_inputs(self) -> Inputs:
        work = self._work
        if not work.spec.closed:
            return Inputs(self.inputs)
        folder = Path(tempfile.mkdtemp(prefix=f"{CLOSED_PREFIX}{work.run.id}-"))
        return placed_inputs(work.spec, self.inputs, folder)

    async def _fill(self, sandbox: Sandbox) -> None:
        """Bring the inputs into the workspace, or what it was when the run was interrupted."""
        work = self._work
        if work.origin is not None:
            await work.origin.prepare(sandbox)
        elif self._snapshot is not None:
            await self._unpack(sandbox, work.artifacts.stream(self._snapshot))
        else:
            tar = (await self._placed_inputs()).tar
            if tar.exists():
                await self._unpack(sandbox, _read(tar))
                work.recorder.emit("input.ready", {"bytes": tar.stat().st_size})
        await asyncio.to_thread(work.store.set_ready, work.lease)

    async def _unpack(self, sandbox: Sandbox, tar: AsyncIterable[bytes]) -> None:
        target = posixpath.join(sandbox.workdir, f".fanfold-input-{secrets.token_hex(6)}.tar")
        try:
            await sandbox.upload_stream(target, tar)
        except OSError as exc:
            raise InfrastructureError(f"the inputs do not go into the sandbox: {exc}; is its disk too small?") from exc
        unpack = await sandbox.start(CommandSpec(["tar", "-xof", target, "-C", sandbox.workdir], merge=True))
        said = b"".join([chunk.data async for chunk in unpack.output()])[-2000:].decode(errors="replace")
        result = await unpack.wait()
        await sandbox.adelete(target)
        if result.exit_code != 0:
            raise InfrastructureError(f"tar ended with {result.exit_code} when it unpacked the inputs in the sandbox: {said}")

    # The end of it

    def stop_commands(self) -> None:
        """From now on a command ends with the call that waits for it: the run is to stop."""
        if self._sandbox is not None:
            self._sandbox.leaves_commands = False

    async def snapshot(self) -> Artifact | None:
        """Store the working directory; what to record of its archive. None when there is no sandbox yet.

        Raises `InfrastructureError` when that cannot be.
        """
        work, sandbox = self._work, self._sandbox
        if sandbox is None:
            return None
        archive = f"/tmp/fanfold-snapshot-{secrets.token_hex(6)}.tar"  # noqa: S108 - a path in the sandbox
        pack = await sandbox.start(CommandSpec(["tar", "-cf", archive, "-C", sandbox.workdir, "."], merge=True))
        said = b"".join([chunk.data async for chunk in pack.output()])[-2000:].decode(errors="replace")
        if (result := await pack.wait()).exit_code != 0:
            raise InfrastructureError(f"tar ended with {result.exit_code} when it packed the working directory: {said}")
        content = sandbox.download_stream(archive)
        return await work.artifacts.keep(work.run.id, f"{RESERVED}snapshot.tar", content, limit=SNAPSHOT_CAP)

    async def pause(self) -> None:
        """Let the sandbox stand still until it is adopted; nothing when there is none yet."""
        if self._handle is not None:
            await self.provider.pause(self._handle)

    async def leave(self) -> None:
        """End the connection; the sandbox goes on with all that runs in it. One that the record does not know is destroyed."""
        self._meter.leave()
        try:
            if self._deferred is not None:
                await self._deferred.aclose()
            if self._sandbox is not None:
                await self._sandbox.aclose()
            if self._handle is not None and not self._noted:  # the task has not begun in it
                async with asyncio.timeout(DESTROY_TIMEOUT):
                    await self.provider.destroy(self._handle)
        finally:
            await self._let_go()

    async def clear(self, *, failed: bool | None = None) -> None:
        """End the connection and the sandbox; when its making was cut off, whatever carries its labels.

        `failed` says how the run has ended. Then a sandbox stays that its task, or an operator, wants to look into.
        """
        work = self._work
        try:
            async with asyncio.timeout(DESTROY_TIMEOUT):
                if self._deferred is not None:
                    await self._deferred.aclose()
                if self._sandbox is not None:
                    await self._sandbox.aclose()
                for found in [self._handle] if self._handle else await self._half_made():
                    if failed is None or not await self._keeps(found, failed):
                        await self.provider.destroy(found)
                        self._forget_closed()
                await self._let_go()
        except Exception as exc:  # the run's own outcome matters more than what could not be cleaned up after it
            name = self._handle.id if self._handle else "a half-made sandbox"
            work.recorder.log("error", f"{name} could not be destroyed: {type(exc).__name__}: {exc}")
        self._meter.leave()

    async def _let_go(self) -> None:
        """Close the provider, unless others go on with it."""
        if self._work.origin is None:
            await self._choosing.aclose()

    async def _half_made(self) -> Sequence[SandboxHandle]:
        unused = self._number == 1 and self._work.origin is None and not self._choosing.begun
        if self.is_empty or unused:
            return ()
        return await self.provider.find({RUN_LABEL: self._work.run.id})

    def _forget_closed(self) -> None:
        for folder in Path(tempfile.gettempdir()).glob(f"{CLOSED_PREFIX}{self._work.run.id}-*"):
            shutil.rmtree(folder, ignore_errors=True)

    async def _keeps(self, handle: SandboxHandle, failed: bool) -> bool:
        work, keeping = self._work, Keeping(self._work.store.engine)
        if work.spec.sandbox.is_kept_after(failed=failed):
            until = await asyncio.to_thread(keeping.keep, handle.id, work.run.id, work.spec.sandbox.keep_for)
            work.recorder.log("info", f"sandbox {handle.id} is kept until {until:%Y-%m-%d %H:%M:%S} UTC")
            return True
        return await asyncio.to_thread(keeping.is_kept, handle.id)


async def _read(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece
