"""One attempt at a run: a fresh sandbox, the inputs in it, the agent or the command, the check, the outputs."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import posixpath
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import InfrastructureError, StaleLease, TaskFailed
from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.files import RunFolder, Secrets
from orchestrator.runs.labels import sandbox_labels
from orchestrator.runs.models import Lease
from orchestrator.runs.prices import PriceTable
from orchestrator.runs.store import Store
from orchestrator.settings import Settings
from orchestrator.spec import AgentSpec, RunSpec
from orchestrator.worker.collect import Collector
from orchestrator.worker.inputs import Inputs, placed_inputs
from orchestrator.worker.meter import Meter
from orchestrator.worker.output import LOG_CAP, OutputSink, stream_command
from orchestrator.worker.recorder import Recorder
from sandboxes.providers.base import SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.providers.registry import get_provider
from sandboxes.sandbox import CommandSpec, Sandbox

DESTROY_TIMEOUT = 60.0
"""Seconds for destroying a sandbox; one that is left is found by its labels."""
PIECE = 1024 * 1024
"""Bytes that are read from the frozen inputs at once."""


@dataclass(frozen=True)
class Assignment:
    """What an attempt works on, and with."""

    run_id: str
    spec: RunSpec
    folder: RunFolder
    secrets: Secrets
    lease: Lease
    settings: Settings
    store: Store
    artifacts: ArtifactStore
    prices: PriceTable
    recorder: Recorder


class Attempt:
    """One attempt. `run` returns when the task has reached its goal, and raises otherwise; the sandbox is gone then."""

    def __init__(self, work: Assignment, number: int) -> None:
        self._work = work
        self._number = number
        self._meter = Meter(number, work.prices)
        self._collector = Collector(work.spec, work.folder, work.store, work.artifacts, work.lease, work.recorder)

    async def run(self) -> None:
        """From nothing to an outcome.

        Raises `TaskFailed`, `InfrastructureError`, `BadInput`, or an error of the `sandboxes` package.
        """
        work = self._work
        work.recorder.emit("run.started", {"attempt": self._number, "worker": work.lease.worker})
        provider = provider_for(work.spec.sandbox.provider, work.settings)
        try:
            async with self._inputs() as inputs, self._sandbox(provider, inputs) as sandbox:
                await self._unpack(sandbox, inputs.tar)
                failure = await self._pursue(sandbox)
                await self._collector.collect(sandbox)
                if failure is not None:
                    raise failure
        finally:
            await provider.aclose()
            await self._record_usage()

    async def _record_usage(self) -> None:
        """Note what was used, however the attempt ended."""
        work, meter = self._work, self._meter
        try:
            seconds = meter.sandbox_seconds
            await asyncio.to_thread(work.store.record_usage, work.lease, self._number, meter.usage(), seconds)
        except StaleLease:
            raise
        except InfrastructureError as exc:  # the attempt's own outcome matters more
            work.recorder.log("error", f"what attempt {self._number} used could not be recorded: {exc}")

    async def _pursue(self, sandbox: Sandbox) -> TaskFailed | None:
        """Do the task and check it. A failure is handed back, because what it left is still collected."""
        spec = self._work.spec
        try:
            if spec.agent is not None:
                await self._run_agent(spec.agent, sandbox)
            if spec.command is not None:
                await self._run_command(sandbox, "command", spec.command, blame="the command failed with")
            if spec.verify is not None:
                await self._run_command(sandbox, "verify", spec.verify, blame="the check (`verify`) failed with")
        except TaskFailed as exc:
            return exc
        return None

    @asynccontextmanager
    async def _inputs(self) -> AsyncIterator[Inputs]:
        """The frozen inputs as they enter the sandbox, until it is gone."""
        work = self._work
        with contextlib.ExitStack() as stack:
            yield await asyncio.to_thread(stack.enter_context, placed_inputs(work.spec, work.folder.input_tar))

    @asynccontextmanager
    async def _sandbox(self, provider: SandboxProvider, inputs: Inputs) -> AsyncIterator[Sandbox]:
        """A fresh sandbox that is destroyed afterwards, whatever happens."""
        work = self._work
        labels = sandbox_labels(await asyncio.to_thread(work.store.installation), work.run_id, self._number)
        spec = self._sandbox_spec(inputs)
        await provider.check(spec)
        handle: SandboxHandle | None = None
        with self._meter.sandbox():
            try:
                handle = await provider.create(spec, labels)
                await asyncio.to_thread(work.store.set_sandbox, work.lease, handle.to_json())
                work.recorder.emit("sandbox.created", {"id": handle.id, "provider": handle.provider})
                async with await provider.attach(handle) as sandbox:
                    sandbox.mounts = work.spec.closed  # what is hidden is an empty place laid over it: see `placed_inputs`
                    yield sandbox
            finally:
                await self._destroy(provider, handle, labels)

    def _sandbox_spec(self, inputs: Inputs) -> SandboxSpec:
        spec = self._work.spec.sandbox_spec()
        return spec.model_copy(update={"env": {**spec.env, **self._work.secrets.env}, "mounts": inputs.mounts})

    async def _destroy(self, provider: SandboxProvider, handle: SandboxHandle | None, labels: dict[str, str]) -> None:
        """Destroy the sandbox; when its creation was interrupted, whatever carries our labels."""
        try:
            async with asyncio.timeout(DESTROY_TIMEOUT):
                for found in [handle] if handle else await provider.find(labels):
                    await provider.destroy(found)
        except Exception as exc:  # the run's own outcome matters more than what could not be cleaned up after it
            name = handle.id if handle else "a half-made sandbox"
            self._work.recorder.log("error", f"{name} could not be destroyed: {type(exc).__name__}: {exc}")

    async def _unpack(self, sandbox: Sandbox, tar: Path) -> None:
        """Bring the inputs into the workspace."""
        if not tar.exists():
            return
        target = posixpath.join(sandbox.workdir, f".fanfold-input-{secrets.token_hex(6)}.tar")
        try:
            await sandbox.upload_stream(target, _read(tar))
        except OSError as exc:
            raise InfrastructureError(f"the inputs do not go into the sandbox: {exc}; is its disk too small?") from exc
        unpack = await sandbox.start(CommandSpec(["tar", "-xof", target, "-C", sandbox.workdir], merge=True))
        said = b"".join([chunk.data async for chunk in unpack.output()])[-2000:].decode(errors="replace")
        result = await unpack.wait()
        await sandbox.adelete(target)
        if result.exit_code != 0:
            raise InfrastructureError(f"tar ended with {result.exit_code} when it unpacked the inputs in the sandbox: {said}")
        self._work.recorder.emit("input.ready", {"bytes": tar.stat().st_size})

    async def _run_command(self, sandbox: Sandbox, kind: str, command: str, *, blame: str) -> None:
        work = self._work
        log = work.folder.path / f".{kind}-{self._number}.log"
        sink = OutputSink(work.recorder, f"{kind}.output", log)
        call_id = f"{work.run_id}:{self._number}:{kind}"
        try:
            exit_code, lost = await stream_command(
                sandbox,
                command,
                sink,
                call_id=call_id,
                started=lambda: work.recorder.emit(f"{kind}.started", {"command": command}),
            )
            await self._keep_log(kind, sink)
        except ValueError as exc:
            raise InfrastructureError(f"the sandbox does not start the command: {exc}") from exc
        finally:
            log.unlink(missing_ok=True)
        if lost:
            work.recorder.log("warning", f"{lost} bytes of the output did not fit into the sandbox and are lost")
        work.recorder.emit(f"{kind}.finished", {"exit_code": exit_code})
        if exit_code != 0:
            raise TaskFailed(f"{blame} exit code {exit_code}")

    async def _keep_log(self, kind: str, sink: OutputSink) -> None:
        if sink.logged:
            await self._collector.keep(f"{kind}.log", sink.log_content())
            self._work.recorder.log("warning", f"the output goes on in the artifact {kind}.log ({sink.logged} bytes)")
        if sink.dropped:
            self._work.recorder.log("warning", f"{sink.dropped} bytes of output beyond {LOG_CAP} were dropped")

    async def _run_agent(self, agent: AgentSpec, sandbox: Sandbox) -> None:
        work = self._work
        # The import takes a second or two when it is the first: not on the event loop that other runs share.
        module = await asyncio.to_thread(importlib.import_module, "orchestrator.agent.run")
        outcome = await module.run_agent(
            agent,
            sandbox,
            emit=work.recorder.emit,
            files=work.folder.path,
            api_key=work.secrets.model_key,
            thread_id=f"{work.run_id}:{self._number}",
            spent=self._meter.spent,
        )
        for name, content in outcome.artifacts.items():
            await self._collector.keep_bytes(name, content)


def provider_for(name: str, settings: Settings) -> SandboxProvider:
    """The provider of this name, as this machine's settings have it. Raises `InvalidSpec` or `ProviderUnavailable`."""
    return get_provider(name, home=settings.home)


async def _read(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece
