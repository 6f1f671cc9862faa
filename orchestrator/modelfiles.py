"""The files of scripted and replayed models: found beside a task, frozen with its run, and taken out for each child."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable
from pathlib import Path

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.models import split_model
from orchestrator.runs.files import RunFolder
from orchestrator.spec import RunSpec
from sandboxes.errors import ArchiveRefused
from sandboxes.workspace.tarwriter import TarWriter

MAX_MODEL_FILE = 64 * 1024 * 1024
"""Bytes of a script or a cassette."""
MAX_MODEL_FILES = 256 * 1024 * 1024
"""Bytes of all those of one run's children together."""


def file_of(model: str) -> str | None:
    """The file that a model is played from; None for one that is called, recorded or not."""
    kind, name, inner = split_model(model)
    if kind == "record":
        kind, name, _ = split_model(inner)
    return name if kind in ("scripted", "replay") else None


def packed_models(spec: RunSpec) -> list[str]:
    """The models whose files are frozen together: those of the children, and of who settles their conflicts."""
    return [model for model in spec.side_models if file_of(model)]


def check_sendable(spec: RunSpec) -> None:
    """Raise `BadInput` for a task whose files cannot be uploaded: an order takes its inputs and that of `agent.model` alone."""
    if spec.sandbox.dockerfile is not None:
        raise BadInput(
            "task.sandbox.dockerfile: a run that is submitted over the network does not bring a Dockerfile along: build it, and"
            " name the image (sandbox.image), or submit the run on the machine itself"
        )
    if packed := packed_models(spec):
        place = "fan_out" if spec.fan_out else "agent.merge.resolver"
        raise BadInput(
            f"task.{place}: the model '{packed[0]}' stands in a file, and a run that is submitted over the network brings along"
            " the file of agent.model alone: use PROVIDER:NAME, or submit it on the machine itself"
        )


def freeze_models(spec: RunSpec, folder: RunFolder, base_dir: Path, *, outside: bool) -> None:
    """Put the files of all models of `spec` into `folder`.

    Raises `BadInput` for one that is missing, too large, or outside of `base_dir`, unless a person named it (`outside`).
    """
    if spec.agent and (name := file_of(spec.agent.model)):
        folder.model_file.write_bytes(_found("agent.model", name, base_dir, outside=outside).read_bytes())
    if packed := packed_models(spec):
        _pack(packed, folder.models_file, base_dir, outside=outside)


def child_model_file(folder: RunFolder, model: str) -> bytes:
    """What was frozen of a child's model. Raises `InfrastructureError` when it is not to be had in this folder."""
    wanted = _entry(model)
    try:
        with tarfile.open(folder.models_file) as tar:
            for member in tar:
                if member.name == wanted and (file := tar.extractfile(member)):
                    return file.read()
    except (OSError, tarfile.TarError) as exc:
        raise InfrastructureError(f"model '{model}': its file cannot be had from {folder.models_file}: {exc}") from exc
    raise InfrastructureError(f"model '{model}': its file is not in {folder.models_file}")


def _pack(models: Iterable[str], target: Path, base_dir: Path, *, outside: bool) -> None:
    found = {model: _found(f"model '{model}'", file_of(model) or "", base_dir, outside=outside) for model in models}
    if sum(path.stat().st_size for path in found.values()) > MAX_MODEL_FILES:
        raise BadInput(f"fan_out: the files of the children's models are larger than {MAX_MODEL_FILES // 1024**2} MiB together")
    with target.open("wb") as archive:
        out = TarWriter(archive)
        for model, path in found.items():
            _add(out, model, path)
        out.close()


def _add(out: TarWriter, model: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            out.file(_entry(model), path.stat().st_size, file.read)
    except ArchiveRefused as exc:
        raise BadInput(f"model '{model}': {exc}") from exc


def _entry(model: str) -> str:
    return hashlib.sha256(model.encode()).hexdigest() + ".yaml"


def _found(key: str, name: str, base_dir: Path, *, outside: bool) -> Path:
    base = base_dir.resolve()
    path = (base / Path(name).expanduser()).resolve() if outside else (base / name).resolve()
    if not outside and not path.is_relative_to(base):
        raise BadInput(f"{key}: '{name}' leads out of the task file's folder {base}: put the file inside it")
    if not path.is_file():
        raise BadInput(f"{key}: there is no file '{name}' in {base}")
    if path.stat().st_size > MAX_MODEL_FILE:
        raise BadInput(f"{key}: '{name}' is larger than {MAX_MODEL_FILE // 1024**2} MiB")
    return path
