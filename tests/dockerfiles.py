"""Specs of Dockerfiles, as the tests of each provider build them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.dockerfile import Dockerfile


@dataclass(frozen=True)
class Specs:
    """Called with the lines that follow FROM. Beside the Dockerfile is `file`, whose content no other test has."""

    folder: Path
    base: str
    build_network: str | None = None
    """What `RUN` may reach, where a call does not say it."""
    content: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        (self.folder / "file").write_text(self.content)

    def __call__(self, *lines: str, **fields: Any) -> SandboxSpec:
        path = self.folder / "Dockerfile"
        path.write_text("\n".join([f"FROM {self.base}", *lines]) + "\n")
        network = fields.pop("build_network", self.build_network)
        return SandboxSpec(dockerfile=Dockerfile(path=str(path), network=network), **fields)
