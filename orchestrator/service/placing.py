"""Where a run stands among others, and running a task again from what was frozen for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from orchestrator.errors import InfrastructureError
from orchestrator.modelfiles import file_of, packed_models
from orchestrator.runs.files import RunFolder
from orchestrator.runs.models import NewRun
from orchestrator.runs.threads import Multitask
from orchestrator.spec import RunSpec
from orchestrator.telemetry.traces import current_traceparent


@dataclass(frozen=True)
class Placing:
    """What holds for a run beside its task."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Beside the task's own; of two with the same name this one holds."""
    priority: int | None = None
    """Instead of the task's own."""
    thread_id: str | None = None
    multitask: Multitask = Multitask.ENQUEUE
    """What happens when another run of the thread goes on."""
    batch_id: str | None = None
    ready_at: datetime | None = None
    """Not before that moment."""
    traceparent: str | None = None
    """The trace that it belongs to, as W3C's header has it, when it is submitted outside of any."""

    def new_run(self, run_id: str, spec: RunSpec, tenant: str) -> NewRun:
        """The run as it is recorded."""
        return NewRun(
            run_id,
            spec.name,
            spec.model_dump(mode="json"),
            tenant=tenant,
            labels={**spec.labels, **self.labels},
            priority=spec.priority if self.priority is None else self.priority,
            thread_id=self.thread_id,
            batch_id=self.batch_id,
            ready_at=self.ready_at,
            traceparent=current_traceparent() or self.traceparent,
        )


def copy_frozen(spec: RunSpec, source: RunFolder, target: RunFolder) -> None:
    """Give a run what was frozen for an earlier one of the same task. Raises `InfrastructureError` when it is not there."""
    from orchestrator.inputs import INPUT_RECORD  # it imports what packs archives

    wanted = [source.input_tar, source.path / INPUT_RECORD] if spec.inputs else []
    if spec.sandbox.dockerfile is not None:
        wanted.append(source.image_tar)
    if spec.agent and file_of(spec.agent.model):
        wanted.append(source.model_file)
    if packed_models(spec):
        wanted.append(source.models_file)
    for path in wanted:
        try:
            _link(path, target.path / path.name)
        except OSError as exc:
            raise InfrastructureError(
                f"what was frozen for {source.path.name} cannot be used again ({path}: {exc.strerror}): submit the task anew"
            ) from exc


def _link(source: Path, target: Path) -> None:
    """Frozen files are never changed, so two runs can share them."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)
