"""Configuration of this process, from `FANFOLD_*` environment variables. A variable that is not known is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from orchestrator.complaints import did_you_mean
from orchestrator.errors import BadInput
from sandboxes.providers.base import Duration

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
    docker_image: str | None = None
    """Image of the docker provider when a task names none."""
    debug: bool = False
    """Show tracebacks of unexpected errors."""

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("allowed_secrets", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value

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
    def worker_log(self) -> Path:
        """Where workers that were started on demand write."""
        return self.home / "worker.log"


def load_settings() -> Settings:
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
