"""What the operator rules about runs: how many may be at work, on which queue they go, what a tenant may, how far they fan out.

It is a YAML file, named by `FANFOLD_POLICY`:

    caps:
      provider: {docker: 10}          # runs with sandboxes of that provider, at the same time
      label: {"team=ml": 5}           # runs with that label
    routes:                           # the first that fits; without one, the queue `fanfold`
      - {provider: docker, queue: gpu}
      - {label: "team=ml", queue: ml}
    providers:                        # what `provider: auto` stands for, in order; see `orchestrator/providerrules.py`
      docker: {max_running: 10}
    tenants: {max_running: 20}        # of each tenant that has no limit of its own
    fan_out: {max_children: 100, max_depth: 3, max_parallel: 50}     # of one run, with all that its children fan out

Every process that submits runs or serves them is to have the same file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from orchestrator.complaints import read_as
from orchestrator.errors import BadInput
from orchestrator.providerrules import Cap, ProviderRule, ProviderRules
from orchestrator.queue import QUEUE, check_queue
from orchestrator.sandboxspec import AUTO
from orchestrator.yamlfile import read_yaml

ANYWHERE = ("docker", "local")
"""What `provider: auto` stands for where the policy lists none: docker if an engine answers, which whoever makes the sandbox
finds out, and else local."""


def _check_label(value: str) -> str:
    key, separator, _ = value.partition("=")
    if not key or not separator:
        raise ValueError(f"write a label as KEY=VALUE, not {value!r}")
    return value


Label = Annotated[str, AfterValidator(_check_label)]
QueueName = Annotated[str, AfterValidator(check_queue)]


@dataclass(frozen=True)
class Placed:
    """What the policy looks at in a run."""

    provider: str
    labels: Mapping[str, str]
    housed: bool = False
    """Whether it has its sandbox, and counts for its provider already."""

    def has(self, label: str) -> bool:
        """Whether the run has this label, `KEY=VALUE`."""
        key, _, value = label.partition("=")
        return self.labels.get(key) == value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Caps(_Strict):
    """How many runs may be at work, or on their way to a worker, at the same time. A cap of 0 holds them all."""

    provider: dict[str, Cap] = Field(default_factory=dict)
    label: dict[Label, Cap] = Field(default_factory=dict)


class Route(_Strict):
    """Runs of this provider, with this label, or both, go on this queue."""

    provider: str | None = None
    label: Label | None = None
    queue: QueueName

    @model_validator(mode="after")
    def _some_condition(self) -> Route:
        if self.provider is None and self.label is None:
            raise ValueError("a route says which runs it is for: give 'provider', 'label' or both")
        return self

    def fits(self, run: Placed) -> bool:
        """Whether it is for this run."""
        return self.provider in (None, run.provider) and (self.label is None or run.has(self.label))


class TenantDefaults(_Strict):
    """The limits of tenants that have none of their own; the names are those of a tenant's limits."""

    max_running: Cap | None = None
    max_queued: Cap | None = None
    max_tokens: Cap | None = None
    max_cost_micros: Cap | None = None
    max_sandbox_seconds: float | None = Field(None, ge=0, allow_inf_nan=False)


class FanOutCaps(_Strict):
    """How far one run may fan out, its children's own fan-outs included."""

    max_children: int = Field(100, ge=0)
    """Children in the whole tree of runs; 0: nobody fans out."""
    max_depth: int = Field(3, ge=0)
    """Generations of children: with 1 a child has none of its own."""
    max_parallel: int = Field(50, ge=1)
    """Children at work at the same time."""

    def check(self, children: int) -> None:
        """Raise `BadInput` when a run cannot have so many children."""
        if children > self.max_children:
            raise BadInput(
                f"fan_out: makes {children} children, and this installation allows a run {self.max_children}:"
                " make fewer, or have its operator raise fan_out.max_children (FANFOLD_POLICY)"
            )


_NO_RULE = ProviderRule()


class Policy(_Strict):
    """The file."""

    caps: Caps = Caps()
    routes: tuple[Route, ...] = ()
    tenants: TenantDefaults = TenantDefaults()
    providers: ProviderRules = Field(default_factory=dict)
    fan_out: FanOutCaps = FanOutCaps()

    def rule(self, provider: str) -> ProviderRule:
        """What holds for a provider."""
        return self.providers.get(provider, _NO_RULE)

    def candidates(self, asked: Sequence[str]) -> tuple[str, ...]:
        """The providers that a task may be given which asks so, the preferred one first."""
        return (tuple(self.providers) or ANYWHERE) if list(asked) == [AUTO] else tuple(asked)

    @property
    def caps_sandboxes(self) -> bool:
        """Whether it matters how many runs have sandboxes of a provider."""
        return any(rule.max_running is not None for rule in self.providers.values())

    def queue(self, run: Placed) -> str:
        """The queue that a run goes on."""
        return next((route.queue for route in self.routes if route.fits(run)), QUEUE)

    @property
    def queues(self) -> list[str]:
        """Every queue that a run may go on, by name."""
        return sorted({QUEUE, *(route.queue for route in self.routes)})


def load_policy(path: Path | None) -> Policy:
    """The policy in a file; one that rules nothing when there is no file. Raises `BadInput` with what is wrong in it."""
    if path is None:
        return Policy()
    document = read_yaml(path)
    return Policy() if document.value is None else read_as(Policy, document)
