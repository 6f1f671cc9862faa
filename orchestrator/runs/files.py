"""A run's folder: what was frozen for it when it was submitted, its secrets while it lives, and its artifacts.

    runs/<id>/input.tar        the workspace at the start, when there are inputs
              model.yaml       the script or cassette of the model, when it has one
              secrets.json     (0600) values of secrets and the model's key; removed when the run has ended
              artifacts/<sha256>
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.runs.models import Artifact
from orchestrator.runs.store import now

MAX_NAME_BYTES = 1024


class TooLarge(InfrastructureError):
    """The content is larger than what was allowed; nothing of it was kept."""


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

    @property
    def _artifacts(self) -> Path:
        return self.path / "artifacts"

    def create(self) -> None:
        """Make the folder, for this user only."""
        self._artifacts.mkdir(mode=0o700, parents=True)
        self.path.chmod(0o700)

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

    async def keep_artifact(self, run_id: str, name: str, content: AsyncIterable[bytes], *, limit: int) -> Artifact:
        """Store content under its hash; what to record of it. Raises `TooLarge`, or `BadInput` for an impossible name."""
        check_artifact_name(name)
        part = self._artifacts / f".part-{os.urandom(8).hex()}"
        digest, size = hashlib.sha256(), 0
        try:
            with part.open("xb") as file:
                async for piece in content:
                    size += len(piece)
                    if size > limit:
                        raise TooLarge(f"artifact '{name}' is larger than {limit} bytes; it was not kept")
                    digest.update(piece)
                    file.write(piece)
            part.rename(self._artifacts / digest.hexdigest())
        finally:
            part.unlink(missing_ok=True)
        return Artifact(run_id, name, size, digest.hexdigest(), now())

    def artifact_path(self, artifact: Artifact) -> Path:
        """Where the content of an artifact is."""
        return self._artifacts / artifact.sha256


def check_artifact_name(name: str) -> None:
    """Names come from sandboxes: only a plain relative path passes, one that every file system takes."""
    parts = name.split("/")
    bad = any(part in ("", ".", "..") or len(part.encode(errors="replace")) > 255 for part in parts)
    if bad or not name.isprintable() or "\\" in name or len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise BadInput(f"{name!r} cannot be the name of an artifact: it must be a plain relative path of printable characters")


async def one_piece(content: bytes) -> AsyncIterator[bytes]:
    """Content that is at hand, as `keep_artifact` takes it."""
    yield content
