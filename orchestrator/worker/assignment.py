"""What a claim of a run works on, and with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from orchestrator.policy import Policy
from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.files import RunFolder, Secrets
from orchestrator.runs.frozen import FrozenFiles
from orchestrator.runs.models import Lease, Run
from orchestrator.runs.prices import PriceTable
from orchestrator.runs.store import Store
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from orchestrator.telemetry.process import Telemetry
from orchestrator.worker.breaker import Breakers
from orchestrator.worker.kin import Executor, Origin
from orchestrator.worker.past import Past
from orchestrator.worker.recorder import Recorder
from orchestrator.worker.watch import Watch


@dataclass
class Assignment:
    """One claim of one run."""

    run: Run
    """As it was when it was claimed; `begin_again` changes what it says of the sandbox."""
    spec: RunSpec
    folder: RunFolder
    secrets: Secrets
    lease: Lease
    settings: Settings
    store: Store
    artifacts: ArtifactStore
    prices: PriceTable
    frozen: FrozenFiles
    recorder: Recorder
    watch: Watch
    executor: Executor
    """Who executes its children."""
    policy: Policy
    breakers: Breakers
    """This worker's, one for each provider."""
    origin: Origin | None = None
    """Of a child: what its sandbox is made from."""
    telemetry: Telemetry = field(default_factory=Telemetry)
    past: Past = field(default_factory=Past)
    """What its earlier attempts have told, as far as this one goes on with what they began."""

    leaves: Exception | None = None
    """Why this worker gives the run up while it works on it: another one goes on, and with its children too."""

    @property
    def task_id(self) -> str:
        """Names what was begun in the sandbox: the same in every attempt that goes on with it."""
        return f"{self.run.id}:{self.run.epoch}"

    def begin_again(self, number: int) -> None:
        """There is nothing to go on with: attempt `number` begins from the inputs, as the record says already."""
        self.run = replace(self.run, epoch=number, sandbox=None, sandbox_ready=False, snapshot=None, outcome=None)
        self.past = Past()
