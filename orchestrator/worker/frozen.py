"""What was frozen for a run, on the machine that executes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from orchestrator.errors import InfrastructureError
from orchestrator.runs.files import INPUT_FILES, SECRETS_FILE, RunFolder, Secrets
from orchestrator.runs.frozen import FrozenFiles
from orchestrator.spec import RunSpec

_ADVICE = (
    "it was submitted by a process with another FANFOLD_HOME: set FANFOLD_ARTIFACTS_URL, the same for every process, to a place"
    " that all of them reach"
)


async def bring_secrets(frozen: FrozenFiles, run_id: str, spec: RunSpec, folder: RunFolder) -> Secrets:
    """The secrets of a run: they are few bytes, and what comes after is told without them.

    Raises `InfrastructureError` when they are not to be had here, or cannot be opened.
    """
    await _bring(frozen.fetch(run_id, folder, names=(SECRETS_FILE,)))
    secrets = await asyncio.to_thread(folder.read_secrets)
    if missing := sorted(set(spec.secrets) - set(secrets.env)):
        raise InfrastructureError(f"the run's secrets ({', '.join(missing)}) are not in {folder.path}; {_ADVICE}")
    return secrets


async def bring_files(frozen: FrozenFiles, run_id: str, spec: RunSpec, folder: RunFolder, *, forked: bool) -> None:
    """Have the inputs, the Dockerfile and the models' files of a run in its folder. It may take long, and can be cancelled.

    Who is `forked` from another run's sandbox has no Dockerfile of its own.

    Raises `InfrastructureError` when they are not to be had here.
    """
    await _bring(frozen.fetch(run_id, folder, names=INPUT_FILES))
    if spec.inputs is not None and not folder.input_tar.exists():
        raise InfrastructureError(f"the run's inputs are not in {folder.path}; {_ADVICE}")
    if spec.sandbox.dockerfile is not None and not forked and not folder.image_tar.exists():
        raise InfrastructureError(f"the Dockerfile of the run's sandbox is not in {folder.path}; {_ADVICE}")


async def _bring(steps: Iterator[None]) -> None:
    """A piece after the other, so that whoever waits for it need not wait for all of it."""
    while await asyncio.to_thread(next, steps, True) is None:
        pass
