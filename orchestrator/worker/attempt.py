"""One attempt at a run: a sandbox with the inputs in it, the agent or the command, the check, the outputs."""

from __future__ import annotations

import asyncio
import importlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from orchestrator.agentspec import AgentSpec
from orchestrator.errors import InfrastructureError, TaskFailed
from orchestrator.runs.checkpointing import Checkpoints
from orchestrator.runs.conversations import Conversations
from orchestrator.runs.family import Family
from orchestrator.runs.store import now
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.collect import Collector
from orchestrator.worker.fanout.order import REPORT, is_subagent
from orchestrator.worker.frozen import bring_files
from orchestrator.worker.lodging import Lodging
from orchestrator.worker.meter import Meter
from orchestrator.worker.outcome import Question
from orchestrator.worker.output import LOG_CAP, OutputSink, stream_command
from orchestrator.worker.spending import Spending
from sandboxes.sandbox import Sandbox

if TYPE_CHECKING:
    from orchestrator.worker.fanout.operation import FanOut
    from orchestrator.worker.fanout.subagents import SubagentForks


class Attempt:
    """One attempt. `run` returns when the task has reached its goal, and raises otherwise; `lodging` is to be given up then."""

    def __init__(self, work: Assignment, number: int) -> None:
        self._work = work
        self._number = number
        self._meter = Meter(number, work.prices)
        self._collector = Collector(work.spec, work.folder, work.store, work.artifacts, work.lease, work.recorder)
        self.lodging = Lodging(work, number, self._meter)
        self.spending = Spending(work, number, self._meter)

    async def run(self) -> None:
        """From where the run is to an outcome.

        Raises `Question` when a person is asked, `TaskFailed`, `InfrastructureError`, `BadInput`, or an error of the
        `sandboxes` package.
        """
        work = self._work
        begun = work.run.sandbox is not None or work.run.sandbox_ready or work.run.snapshot is not None
        resumes = self._number == work.run.attempt and begun
        work.recorder.emit("run.started", {"attempt": self._number, "worker": work.lease.worker, "resumed": resumes})
        await bring_files(work.frozen, work.run.id, work.spec, work.folder, forked=work.origin is not None)
        sandbox = await self.lodging.enter(forked=resumes and await asyncio.to_thread(self._has_forks))
        failure = await self._pursue(sandbox)
        await self._collector.collect(sandbox)
        if work.origin is not None and not self.lodging.is_empty:
            await self._fanning("changes").keep_changes(work, sandbox)
        if failure is not None:
            raise failure

    def _has_forks(self) -> bool:
        """Whether a fan-out is under way: its children may stand on the files of the sandbox, which stands still then."""
        noted = Family(self._work.store.engine).fan_outs(self._work.run.id)
        return any(one.result is None for one in noted)

    async def _pursue(self, sandbox: Sandbox) -> TaskFailed | None:
        """Do the task and check it. A failure is handed back, because what it left is still collected."""
        spec = self._work.spec
        try:
            if spec.agent is not None:
                await self._run_agent(spec.agent, sandbox)
            if spec.fan_out is not None:
                await self._fanning("declared").fan_out(self._work, self._fan_outs(sandbox))
            if spec.command is not None:
                await self._run_command(sandbox, "command", spec.command, blame="the command failed with")
            if spec.verify is not None:
                await self._run_command(sandbox, "verify", spec.verify, blame="the check (`verify`) failed with")
        except TaskFailed as exc:
            return exc
        return None

    async def _run_command(self, sandbox: Sandbox, kind: str, command: str, *, blame: str) -> None:
        work = self._work
        log = work.folder.path / f".{kind}-{self._number}.log"
        sink = OutputSink(work.recorder, f"{kind}.output", log, work.past)
        try:
            exit_code, lost = await stream_command(
                sandbox, command, sink, call_id=f"{work.task_id}:{kind}", started=lambda: self._tell_start(kind, command)
            )
            await self._keep_log(kind, sink)
        except ValueError as exc:
            raise InfrastructureError(f"the sandbox does not start the command: {exc}") from exc
        finally:
            log.unlink(missing_ok=True)
        if lost:
            work.recorder.log("warning", f"{lost} bytes of the output did not fit into the sandbox and are lost")
        if kind not in work.past.finished:
            work.recorder.emit(f"{kind}.finished", {"exit_code": exit_code})
        if exit_code != 0:
            raise TaskFailed(f"{blame} exit code {exit_code}")

    def _tell_start(self, kind: str, command: str) -> None:
        if kind not in self._work.past.started:
            self._work.recorder.emit(f"{kind}.started", {"command": command})

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
        conversations = Conversations(work.store.engine)
        outcome = await module.run_agent(
            agent,
            sandbox,
            emit=self._emit,
            files=work.folder.path,
            api_key=work.secrets.model_key,
            thread_id=work.task_id,
            spent=self._meter.spent,
            redact=work.recorder.redactor.text,
            delegating=module.Delegating(not is_subagent(work.run.fan_out), await self._forks(agent, sandbox)),
            course=module.Course(
                record=Checkpoints(work.store.engine, work.lease),
                begun=work.run.epoch != self._number,
                earlier=await self._earlier(conversations),
                told=work.past.agent,
                decision=work.run.decision,
            ),
        )
        if outcome.question is not None:
            raise Question(work.recorder.redactor.data(outcome.question), self._decide_by(agent))
        for name, content in outcome.artifacts.items():
            others = await asyncio.to_thread(self._left_by_subagents, name)
            await self._collector.keep_bytes(name, await asyncio.to_thread(module.with_recordings, content, others))
        if work.origin is not None:
            await self._collector.keep_bytes(REPORT, outcome.text.encode())
        await self.save_conversation()

    def _left_by_subagents(self, name: str) -> list[bytes]:
        """The artifacts of this name of subagents that worked in forks, in the order in which they were called."""
        work = self._work
        children = Family(work.store.engine).children(work.run.id)
        ours = [child.id for child in children if (child.fan_out or "").startswith(f"{work.run.epoch}-")]
        found = [one for child in ours for one in work.store.artifacts(child) if one.name == name]
        return [b"".join(work.artifacts.pieces(one.sha256)) for one in found]

    def _fan_outs(self, sandbox: Sandbox) -> FanOut:
        made: FanOut = self._fanning("operation").FanOut(self._work, self.lodging, sandbox, self._collector)
        return made

    async def _forks(self, agent: AgentSpec, sandbox: Sandbox) -> SubagentForks | None:
        """What has subagents work in forks; None when none of them does."""
        if is_subagent(self._work.run.fan_out):
            return None
        capabilities = await self.lodging.provider.capabilities()
        make = self._fanning("subagents").SubagentForks
        forks: SubagentForks = make(self._work, agent, lambda: self._fan_outs(sandbox), capabilities)
        return forks if forks.any else None

    def _fanning(self, name: str) -> Any:
        """A module of the fan-outs, which need a Git library: most runs do not."""
        return importlib.import_module(f"orchestrator.worker.fanout.{name}")

    def _emit(self, kind: str, data: dict[str, Any]) -> None:
        self._work.telemetry.metrics.happened(kind, data)
        self._work.recorder.emit(kind, data)

    async def save_conversation(self) -> None:
        """Let the run's thread go on with what its agent has said so far; nothing where it has no thread."""
        work = self._work
        if work.run.thread_id is None or work.spec.agent is None:
            return
        module = await asyncio.to_thread(importlib.import_module, "orchestrator.agent.run")
        record = Checkpoints(work.store.engine, work.lease)
        if (said := await asyncio.to_thread(module.said, record, work.task_id)) is not None:
            await asyncio.to_thread(Conversations(work.store.engine).save, work.lease, said)

    async def _earlier(self, conversations: Conversations) -> bytes | None:
        """What was said in the run's thread before."""
        if (thread := self._work.run.thread_id) is None:
            return None
        found = await asyncio.to_thread(conversations.latest, thread)
        return found.data if found is not None else None

    def _decide_by(self, agent: AgentSpec) -> datetime:
        latest = now() + timedelta(seconds=agent.decide_within)
        expires = self.lodging.expires_at if agent.while_waiting != "snapshot" else None
        return min(latest, expires) if expires else latest
