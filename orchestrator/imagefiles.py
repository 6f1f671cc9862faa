"""The Dockerfile of a task's sandbox, frozen with its run together with the files that it copies."""

from __future__ import annotations

from pathlib import Path

from orchestrator.errors import BadInput
from orchestrator.inputs import locate
from orchestrator.sandboxspec import TaskDockerfile
from sandboxes.errors import InvalidSpec
from sandboxes.providers.context import pack
from sandboxes.providers.dockerfile import Dockerfile

_KEY = "sandbox.dockerfile"


def freeze_dockerfile(asked: TaskDockerfile, target: Path, base_dir: Path, *, outside: bool) -> None:
    """Write the Dockerfile and its context to `target`.

    Raises `BadInput` for what is missing, unsafe, too large, or outside of `base_dir`, unless a person named it (`outside`).
    """
    path = locate(asked.path, f"{_KEY}.path", base_dir, allow_outside=outside)
    context = asked.context and locate(asked.context, f"{_KEY}.context", base_dir, allow_outside=outside)
    try:
        with target.open("xb") as out:
            pack(Dockerfile(path=str(path), context=str(context) if context else None), out)
    except InvalidSpec as exc:
        target.unlink()
        raise BadInput(f"sandbox.{exc}" if str(exc).startswith("dockerfile") else f"{_KEY}: {exc}") from exc
    except OSError as exc:
        raise BadInput(f"{_KEY}: cannot write {target}: {exc.strerror}") from exc
