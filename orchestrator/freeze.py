"""Freezing what a run needs into its folder, so that a worker needs only the run's id, whatever happens to the originals."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from orchestrator.cleartext import check_no_secret
from orchestrator.errors import BadInput
from orchestrator.modelfiles import freeze_models
from orchestrator.models import find_model_key, key_variable
from orchestrator.runs.files import RunFolder, Secrets
from orchestrator.spec import RunSpec


def freeze_run(
    spec: RunSpec,
    folder: RunFolder,
    *,
    base_dir: Path,
    granted: Collection[str],
    environ: Mapping[str, str],
    named: Collection[str],
) -> None:
    """Put inputs, model files and secrets of `spec` into `folder`. Raises `BadInput`; see `Service.submit` for the rest."""
    secrets = find_secrets(spec, granted, environ)
    freeze_files(spec, folder, base_dir=base_dir, named=named)
    folder.write_secrets(secrets)


def find_secrets(spec: RunSpec, granted: Collection[str], environ: Mapping[str, str]) -> Secrets:
    """The values of the secrets, and the model's key.

    Raises `BadInput` when one is not granted or not set, or is written into the task.
    """
    values = resolve_secrets(spec, granted, environ)
    keys = (find_model_key(model, environ) for model in spec.models)
    found = Secrets(values, next(filter(None, keys), None))
    check_no_secret(spec, found.env, found.model_key)
    return found


def freeze_files(spec: RunSpec, folder: RunFolder, *, base_dir: Path, named: Collection[str]) -> None:
    """Put inputs, model files and the Dockerfile of `spec` into `folder`. Raises `BadInput`; see `Service.submit`."""
    freeze_models(spec, folder, base_dir, outside="model" in named)
    if spec.sandbox.dockerfile is not None:
        from orchestrator.imagefiles import freeze_dockerfile

        freeze_dockerfile(spec.sandbox.dockerfile, folder.image_tar, base_dir, outside="dockerfile" in named)
    if spec.inputs:
        from orchestrator.inputs import freeze  # it imports a Git library

        freeze(spec.inputs, base_dir, folder.path, allow_outside="inputs" in named)


def resolve_secrets(spec: RunSpec, granted: Collection[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The values of the secrets, by their names in the sandbox. Raises `BadInput` when one is not granted or not set.

    A task file is not trusted to take what it names: a person grants each variable.
    """
    refused = sorted(set(spec.secret_variables.values()) - set(granted))
    if refused:
        options = " ".join(f"--secret {name}" for name in refused)
        raise BadInput(
            f"secrets: the task asks for {', '.join(refused)} of your environment, which was not granted;"
            f" if you trust it, add {options} (or set FANFOLD_ALLOWED_SECRETS)"
        )
    values = {}
    for name, variable in spec.secret_variables.items():
        if not environ.get(variable):
            raise BadInput(f"secrets.{name}: the variable {variable} is not set, or empty, in your environment")
        values[name] = environ[variable]
    return values


def secrets_to_send(spec: RunSpec, granted: Collection[str], environ: Mapping[str, str]) -> dict[str, str]:
    """What a task needs of `environ`, by variable, for a run that is ordered elsewhere. Raises `BadInput` as `find_secrets`.

    Beside its secrets that is the key of its models; where there is none here, it may be there.
    """
    values = resolve_secrets(spec, granted, environ)
    found = {variable: values[name] for name, variable in spec.secret_variables.items()}
    for model in spec.models:
        if variable := key_variable(model, environ):
            found[variable] = environ[variable]
    return found
