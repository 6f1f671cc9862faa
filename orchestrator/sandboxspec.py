"""The sandbox that a task asks for: a part of the task file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from orchestrator.fields import Variables
from sandboxes.providers.base import Duration, Network, Resources, SandboxPath, Strict

DEFAULT_KEEP_FOR = 3600.0
"""Seconds."""
MAX_KEEP = 86400.0
"""Seconds for which a sandbox can be kept after its run."""
MAX_PROVIDERS = 10
"""Providers that a task can name."""
DEFAULT_PROVIDER = "local"
"""Of tasks that name none, where the operator says nothing else (`FANFOLD_PROVIDER`)."""
AUTO = "auto"
"""As a provider: whatever the operator's policy lists, or else what works where the sandbox is made."""

ProviderName = Annotated[str, Field(min_length=1, max_length=100)]


class TaskDockerfile(Strict):
    """A Dockerfile beside the task file, to be built where the sandbox is made."""

    path: str = Field(min_length=1)
    """Inside the task file's folder."""
    context: str | None = None
    """The folder that `COPY` takes from, inside the task file's folder. Default: the Dockerfile's own."""
    network: Literal["none", "public"] | None = None
    """What `RUN` may reach. Default: what the sandbox may."""

    @model_validator(mode="before")
    @classmethod
    def _by_its_path_alone(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value


class TaskSandbox(Strict):
    """The sandbox that a task asks for.

    These are the fields of `SandboxSpec` that a task's author may choose, and no others: what concerns the machine's own
    files (`mounts`, `rootfs`) is its operator's.
    """

    provider: ProviderName | None = None
    """Its name, or `auto`. Default, where there are no `providers`: the installation's (`FANFOLD_PROVIDER`)."""
    providers: tuple[ProviderName, ...] | None = Field(None, min_length=1, max_length=MAX_PROVIDERS)
    """Instead: several, the preferred one first. The next one is for when one is away, or has no room."""
    weaker_isolation: Literal["refuse", "allow"] = "refuse"
    """Whether what takes the place of the first of several providers may separate less than that one."""
    image: str | None = None
    dockerfile: TaskDockerfile | None = None
    """Instead of an image."""
    system: Literal["read-only", "overlay"] = "read-only"
    workdir: SandboxPath = "/workspace"
    env: Variables = Field(default_factory=dict)
    user: str | None = None
    resources: Resources = Resources()
    network: Network = "none"
    allowed_hosts: tuple[str, ...] = ()
    lifetime: Duration | None = None
    """Default: the run's timeout and a margin."""
    idle_timeout: Duration | None = None
    runtime: str | None = None
    on_loss: Literal["restart", "fail"] = "restart"
    """When the sandbox is gone and the run is not done: it begins again from its inputs, or it fails."""
    keep: Literal["never", "on-failure", "always"] = "never"
    """Whether the sandbox stays after the run, for somebody to look into: after one that failed or ran out of time, or any."""
    keep_for: Duration = Field(DEFAULT_KEEP_FOR, le=MAX_KEEP)
    """How long it stays. The end of its lifetime ends it all the same."""

    @model_validator(mode="before")
    @classmethod
    def _named_when_written(cls, value: Any) -> Any:
        """Who writes `provider:` and nothing behind it has forgotten something; JSON forms of a task have both fields."""
        if isinstance(value, dict) and "providers" not in value and value.get("provider", "") is None:
            raise ValueError("give one of 'provider' (a name, or auto) and 'providers', or leave both out")
        return value

    @field_validator("providers")
    @classmethod
    def _each_once(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and AUTO in value:
            raise ValueError(f"'{AUTO}' stands alone: write provider: {AUTO}")
        if value is not None and len(set(value)) < len(value):
            raise ValueError(f"a provider is named twice: {', '.join(value)}")
        return value

    @model_validator(mode="after")
    def _not_both(self) -> TaskSandbox:
        if self.provider is not None and self.providers is not None:
            raise ValueError("give one of 'provider' (a name, or auto) and 'providers' (a list, the preferred one first)")
        return self

    @model_validator(mode="after")
    def _one_image(self) -> TaskSandbox:
        if self.image is not None and self.dockerfile is not None:
            raise ValueError("give one of 'image' and 'dockerfile'")
        return self

    @property
    def asked(self) -> tuple[str, ...]:
        """The providers as they are written: one name, several, or `auto` alone. Every run that was submitted names some."""
        return self.providers if self.providers is not None else (self.provider or DEFAULT_PROVIDER,)

    def with_default(self, provider: str) -> TaskSandbox:
        """The same with this provider, where the task names none."""
        named = self.provider is not None or self.providers is not None
        return self if named else self.model_copy(update={"provider": provider})

    def is_kept_after(self, *, failed: bool) -> bool:
        """Whether it stays after a run that ended so."""
        return self.keep == "always" or (self.keep == "on-failure" and failed)
