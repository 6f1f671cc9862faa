"""A run's folder: what was frozen for it when it was submitted, and its secrets while it lives.

    runs/<id>/input.tar        the workspace at the start, when there are inputs
              model.yaml       the script or cassette of the model, when it has one
              secrets.json     (0600) values of secrets and the model's key; removed when the run has ended
              artifacts/       of runs of the first version; all others' are in the `ArtifactStore`
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.runs.models import Artifact


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

    @classmethod
    def of(cls, runs_dir: Path, run_id: str) -> RunFolder:
        """The folder of a run, whether it exists or not."""
        return cls(runs_dir / run_id)

    @property
    def input_tar(self) -> Path:
        """The frozen inputs."""
        return self.path / "input.tar"

    @property
    def model_file(self) -> Path:
        """The frozen script or cassette."""
        return self.path / "model.yaml"

    @property
    def _secrets_file(self) -> Path:
        return self.path / "secrets.json"

    def create(self) -> None:
        """Make the folder, for this user only."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def write_secrets(self, secrets: Secrets) -> None:
        """Keep secrets until the run has ended; nothing is written when there are none."""
        if secrets.values:
            descriptor = os.open(self._secrets_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump({"env": secrets.env, "model_key": secrets.model_key}, file)

    def read_secrets(self) -> Secrets:
        """The secrets that were kept, or none."""
        try:
            value = json.loads(self._secrets_file.read_bytes())
        except FileNotFoundError:
            return Secrets()
        return Secrets(value["env"], value["model_key"])

    def forget_secrets(self) -> None:
        """Remove the secrets."""
        self._secrets_file.unlink(missing_ok=True)

    def earlier_artifact(self, artifact: Artifact) -> Path | None:
        """The content of an artifact of a run that kept them in its folder, as the first version did; else None."""
        path = self.path / "artifacts" / artifact.sha256
        return path if path.is_file() else None
