"""A run's folder: what was frozen for it when it was submitted, and its secrets while it lives.

    runs/<id>/input.tar        the workspace at the start, when there are inputs
              image.tar        the Dockerfile of its sandbox and what that copies, when it has one
              input.json       what the inputs were
              model.yaml       the script or cassette of the model, when it has one
              models.tar       those of the models of its children
              secrets.sealed   (0600) values of secrets and the model's key, sealed; removed when the run has ended
              artifacts/       of runs of the first version; all others' are in the `ArtifactStore`

Where several machines share the place of the artifacts, the first six lie there (`runs/frozen.py`), and the folder is only as
old as the run's worker.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.runs.models import Artifact
from orchestrator.vault import Vault

INPUT_TAR = "input.tar"
IMAGE_TAR = "image.tar"
MODEL_FILE = "model.yaml"
MODELS_FILE = "models.tar"
SECRETS_FILE = "secrets.sealed"
INPUT_FILES = (INPUT_TAR, "input.json", IMAGE_TAR, MODEL_FILE, MODELS_FILE)
"""What a run begins with."""
FROZEN_FILES = (*INPUT_FILES, SECRETS_FILE)
"""What a worker needs of the folder."""
RESERVED = ".inputs/"
"""How names begin, among a run's artifacts, that are not of what it left."""
FROZEN_NAMES = tuple(RESERVED + name for name in FROZEN_FILES)
_CLEAR_SECRETS = "secrets.json"
"""Where the first version kept them, in the clear: runs that waited when it was replaced have them there."""


@dataclass(frozen=True)
class Secrets:
    """What must not be seen. Its representation shows no values."""

    env: dict[str, str] = field(default_factory=dict, repr=False)
    """Environment variables of the sandbox's commands."""
    model_key: str | None = field(default=None, repr=False)

    @property
    def values(self) -> list[str]:
        """Every value that has to be redacted."""
        return [*self.env.values(), *([self.model_key] if self.model_key else [])]


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run."""

    path: Path
    vault: Vault | None = field(default=None, repr=False, compare=False)
    """What seals its secrets; a folder without one takes and gives none."""

    @classmethod
    def of(cls, runs_dir: Path, run_id: str, vault: Vault | None = None) -> RunFolder:
        """The folder of a run, whether it exists or not."""
        return cls(runs_dir / run_id, vault)

    @property
    def input_tar(self) -> Path:
        """The frozen inputs."""
        return self.path / INPUT_TAR

    @property
    def image_tar(self) -> Path:
        """The frozen Dockerfile, with its context."""
        return self.path / IMAGE_TAR

    @property
    def model_file(self) -> Path:
        """The frozen script or cassette."""
        return self.path / MODEL_FILE

    @property
    def models_file(self) -> Path:
        """The frozen scripts and cassettes of its children."""
        return self.path / MODELS_FILE

    def create(self) -> None:
        """Make the folder, for this user only."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def write_secrets(self, secrets: Secrets) -> None:
        """Keep secrets, sealed, until the run has ended; nothing is written when there are none."""
        if secrets.values:
            sealed = self._key.seal(json.dumps({"env": secrets.env, "model_key": secrets.model_key}))
            descriptor = os.open(self.path / SECRETS_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(sealed)

    def read_secrets(self) -> Secrets:
        """The secrets that were kept, or none. Raises `InfrastructureError` when they were sealed with another key."""
        try:
            text = self._key.open((self.path / SECRETS_FILE).read_text(encoding="ascii", errors="replace"))
        except FileNotFoundError:
            text = self._clear_secrets()
        value = json.loads(text)
        return Secrets(value["env"], value["model_key"])

    def forget_secrets(self) -> None:
        """Remove the secrets."""
        for name in (SECRETS_FILE, _CLEAR_SECRETS):
            (self.path / name).unlink(missing_ok=True)

    def _clear_secrets(self) -> str:
        try:
            return (self.path / _CLEAR_SECRETS).read_text()
        except FileNotFoundError:
            return '{"env": {}, "model_key": null}'

    @property
    def _key(self) -> Vault:
        assert self.vault is not None, "a folder without a vault has no secrets"
        return self.vault

    def earlier_artifact(self, artifact: Artifact) -> Path | None:
        """The content of an artifact of a run that kept them in its folder, as the first version did; else None."""
        path = self.path / "artifacts" / artifact.sha256
        return path if path.is_file() else None
