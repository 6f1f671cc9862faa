"""Freezing once what many runs have in common: the runs of a batch often take the same upload."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from orchestrator.errors import BadInput
from orchestrator.freeze import freeze_files
from orchestrator.runs.files import RunFolder
from orchestrator.runs.store import new_run_id
from orchestrator.service.installation import Installation
from orchestrator.service.placing import copy_frozen
from orchestrator.spec import RunSpec


class Staging:
    """Inputs and model files that were frozen already. Close it when the runs are recorded."""

    def __init__(self, installation: Installation) -> None:
        self._of = installation
        self._known: dict[str, RunFolder | BadInput] = {}
        self._found: set[str] = set()

    def freeze(self, spec: RunSpec, folder: RunFolder, *, base_dir: Path, named: Collection[str]) -> None:
        """Put inputs and model files of `spec`, all of them in the same `base_dir`, into `folder`; see `freeze_files`.

        What was refused once is refused again, without another look at it.
        """
        if spec.inputs is None and not spec.models and spec.sandbox.dockerfile is None:
            return
        key = repr((spec.inputs, spec.sandbox.dockerfile, spec.agent and spec.agent.model, spec.side_models))
        if key not in self._known:
            self._known[key] = self._frozen(spec, base_dir, named)
        found = self._known[key]
        if isinstance(found, BadInput):
            raise BadInput(str(found)) from found
        copy_frozen(spec, found, folder)

    def once(self, name: str, look: Callable[[str], object]) -> None:
        """Look for something by its name, which raises when it is not there; not again when it was found before."""
        if name not in self._found:
            look(name)
            self._found.add(name)

    def close(self) -> None:
        """Remove what is not a run's."""
        for found in self._known.values():
            if isinstance(found, RunFolder):
                found.remove()

    def _frozen(self, spec: RunSpec, base_dir: Path, named: Collection[str]) -> RunFolder | BadInput:
        folder = self._of.folder(new_run_id())
        try:
            folder.create()
            freeze_files(spec, folder, base_dir=base_dir, named=named)
        except BadInput as exc:
            folder.remove()
            return exc
        except BaseException:
            folder.remove()
            raise
        return folder
