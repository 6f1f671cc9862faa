"""Configuration of this process, from `FANFOLD_*` environment variables. A variable that is not known is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from orchestrator.complaints import did_you_mean
from orchestrator.errors import BadInput
from orchestrator.sandboxspec import DEFAULT_PROVIDER, ProviderName
from orchestrator.vault import keys_of
from sandboxes.providers.base import Duration, Size

PREFIX = "FANFOLD_"
DEFAULT_TENANT = "default"
"""Whose runs are when nobody says whose: those of a user of this machine."""
TENANT_PATTERN = r"^[a-z0-9][a-z0-9-]{0,62}$"
"""Names of tenants."""


def default_home(environ: Mapping[str, str] = os.environ) -> Path:
    """`fanfold` in the user's folder for state."""
    state = environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else Path.home() / ".local" / "state") / "fanfold"


class Settings(BaseSettings):
    """What an operator or a user may set. Each field is the variable `FANFOLD_` and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    url: str | None = None
    """Address of an API (`https://host`): the command line then works there instead of on this machine."""
    api_key: SecretStr | None = None
    """The key that opens that API: `ffk_...`."""
    home: Path = Field(default_factory=default_home)
    """Folder of the local state: database, embedded broker, runs, sandboxes. Made with mode 0700."""
    database_url: str | None = None
    """SQLAlchemy address of the record. Default: the SQLite file `fanfold.db` in `home`."""
    redis_url: str | None = None
    """Address of the broker. Default: an embedded Valkey server in `home`, on a Unix socket."""
    tenant: str = Field(DEFAULT_TENANT, pattern=TENANT_PATTERN)
    """Whose runs the command line submits and sees, where it works without an API."""
    artifacts_url: str | None = None
    """Where what runs leave is kept: a folder, or an address of fsspec (`s3://bucket/prefix`). Default: in `home`."""
    worker_concurrency: int = Field(4, gt=0, le=1000)
    """Runs that one worker executes at the same time."""
    worker_idle_exit: Duration = 300.0
    """Seconds without a run after which a worker that was started on demand leaves (`90`, `10m`)."""
    allowed_secrets: Annotated[frozenset[str], NoDecode] = frozenset()
    """Variables, separated by commas, that task files may take as secrets without being asked for each (`--secret`)."""
    prices: Path | None = None
    """YAML file with what models cost, in USD for a million tokens: `models: {"openai:gpt-*": {input: 3, output: 15}}`."""
    secret_key: SecretStr | None = None
    """Keys that secrets are sealed with: 32 random bytes in base64 each; of several, separated by commas, the first seals.
    Default: the file `secret.key` in `home`, made when it is needed; processes with other homes must be given the same keys."""
    webhook_allow_private: bool = False
    """Webhooks may lead to private, loopback and link-local addresses, and be plain HTTP."""
    provider: ProviderName = DEFAULT_PROVIDER
    """Provider of tasks that name none; `auto` is for what the policy lists."""
    policy: Path | None = None
    """YAML file with caps, routes to queues and tenants' limits; see `orchestrator/policy.py`."""
    docker_image: str | None = None
    """Image of the docker provider when a task names none."""
    modal_image: str | None = None
    """Image of the modal provider when a task names none."""
    modal_app: str | None = None
    """App of Modal that the modal provider's sandboxes belong to."""
    daytona_image: str | None = None
    """Image, or `snapshot:NAME`, of the daytona provider when a task names none."""
    log_format: Literal["json", "console"] | None = None
    """How processes write their logs to stderr. Default: `console` when that is a terminal, else `json`, a line for each."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is less important than this is not logged."""
    metrics_addr: Annotated[str, Field(pattern=r"^[^\s/:]*:\d{1,5}$|^\[[0-9a-fA-F:]+\]:\d{1,5}$")] | None = None
    """`HOST:PORT` at which a worker or a controller serves its metrics to Prometheus. Default: nowhere."""
    metrics_public: bool = False
    """`/metrics` of the API answers without a key. It names tenants, and what they use."""
    max_upload: Size = 2 * 1024**3
    """Bytes of one upload to the API (`500MiB`)."""
    uploads: Path | None = None
    """Folder of what was uploaded for runs to come. Default: in `home`. Several processes that serve one API must share it."""
    api_git: bool = False
    """Whether runs that are submitted to the API may name Git repositories, which this machine then fetches."""
    cors_origins: Annotated[frozenset[str], NoDecode] = frozenset()
    """Origins, separated by commas, whose pages may use the API from a browser (`https://example.org`). Default: none."""
    debug: bool = False
    """Show tracebacks of unexpected errors."""

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("allowed_secrets", "cors_origins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value

    @field_validator("secret_key")
    @classmethod
    def _of_keys(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            keys_of(value.get_secret_value())
        return value

    @property
    def database(self) -> str:
        """The address of the record."""
        return self.database_url or f"sqlite:///{self.home / 'fanfold.db'}"

    @property
    def artifacts(self) -> str:
        """The place of the artifacts."""
        return self.artifacts_url or str(self.home / "artifacts")

    @property
    def spool_dir(self) -> Path:
        """Where artifacts wait on this machine until they are in a bucket."""
        return self.home / "spool"

    @property
    def runs_dir(self) -> Path:
        """A folder for each run: what was frozen for it."""
        return self.home / "runs"

    @property
    def uploads_dir(self) -> Path:
        """A folder for each tenant with what was uploaded for runs to come."""
        return self.uploads or self.home / "uploads"

    @property
    def worker_log(self) -> Path:
        """Where workers that were started on demand write."""
        return self.home / "worker.log"


def load_settings(*, make_home: bool = True) -> Settings:
    """The settings of this process, its home made. Raises `BadInput` for an unknown or a wrong variable."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(sorted(known))}"
            raise BadInput(f"the environment variable {name} is not known{hint}")
    try:
        settings = Settings()
    except ValidationError as exc:
        wrong = [f"{PREFIX}{str(error['loc'][0]).upper()}: {error['msg']}" for error in exc.errors(include_url=False)]
        raise BadInput("\n".join(wrong)) from exc
    if make_home:
        make_private_folder(settings.home)
    return settings


def make_private_folder(path: Path) -> Path:
    """Make a folder, and those above it, that only this user can enter. Raises `BadInput` when that cannot be."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.stat().st_mode & 0o077:
            path.chmod(0o700)
    except OSError as exc:
        raise BadInput(f"{path}: this folder cannot be used for fanfold's state: {exc.strerror}; set FANFOLD_HOME") from exc
    return path
