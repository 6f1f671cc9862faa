"""Making runs ready to be recorded: what they need is frozen, so that a worker needs only their id."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from orchestrator.freeze import find_secrets, freeze_files
from orchestrator.runs.files import INPUT_FILES, RunFolder, Secrets
from orchestrator.runs.models import NewRun, Run
from orchestrator.runs.store import new_run_id
from orchestrator.runs.threads import Multitask
from orchestrator.sandboxspec import TaskSandbox
from orchestrator.service.installation import Installation
from orchestrator.service.orders import RunOrder
from orchestrator.service.placing import Placing, copy_frozen
from orchestrator.service.reach import check_reach
from orchestrator.service.staging import Staging
from orchestrator.service.uploads import UploadRoom
from orchestrator.spec import RunSpec


class Preparing:
    """Prepares runs of one tenant. One that is not recorded after all has to be dropped."""

    def __init__(self, installation: Installation, tenant: str, staging: Staging | None = None) -> None:
        """With `staging`, what its runs have in common is frozen once."""
        self._of = installation
        self._tenant = tenant
        self._staging = staging
        self._freeze_files = staging.freeze if staging else freeze_files
        self._uploads = UploadRoom(installation, tenant)

    def task(
        self,
        spec: RunSpec,
        *,
        base_dir: Path,
        granted: Collection[str],
        environ: Mapping[str, str],
        named: Collection[str] = (),
        placing: Placing,
        run_id: str | None = None,
    ) -> NewRun:
        """A run of a task whose files are in `base_dir`; see `Service.submit`."""
        spec = spec.with_default_provider(self._of.settings.provider)
        secrets = self._checked(spec, granted, environ)
        freeze = partial(self._freeze_files, spec, base_dir=base_dir, named=frozenset(named))
        return self._frozen(placing.new_run(run_id or new_run_id(), spec, self._tenant), secrets, freeze)

    def order(
        self, order: RunOrder, *, batch_id: str | None = None, traceparent: str | None = None, run_id: str | None = None
    ) -> NewRun:
        """A run that is ordered from elsewhere; see `Service.order`."""
        spec = order.resolved(git=self._of.settings.api_git)
        for upload in (order.uploads.inputs, order.uploads.model):
            if upload is not None:
                self._check(upload)
        placing = Placing(
            labels=order.labels,
            priority=order.priority,
            thread_id=order.thread_id,
            multitask=order.multitask_strategy or Multitask.ENQUEUE,
            batch_id=batch_id,
            traceparent=traceparent,
        )
        environ = self._environ(order.secrets)
        folder = self._uploads.folder
        return self.task(spec, base_dir=folder, granted=order.secrets, environ=environ, placing=placing, run_id=run_id)

    def again(self, run: Run, *, secrets: Mapping[str, str] | None, traceparent: str | None, new_id: str | None) -> NewRun:
        """A new run of the same task as one that has ended; see `Service.retry`."""
        spec = RunSpec.model_validate(run.spec)
        granted = frozenset(spec.secret_variables.values()) if secrets is None else frozenset(secrets)
        environ = os.environ if secrets is None else self._environ(secrets)
        found = self._checked(spec, granted, environ)
        placing = Placing(labels=run.labels, priority=run.priority, traceparent=traceparent)
        freeze = partial(self._copy, spec, run.id)
        return self._frozen(placing.new_run(new_id or new_run_id(), spec, self._tenant), found, freeze)

    def drop(self, new: NewRun) -> None:
        """Forget what was frozen for a run that is not recorded."""
        self._of.folder(new.id).remove()

    def _copy(self, spec: RunSpec, run_id: str, folder: RunFolder) -> None:
        if self._of.store.frozen(run_id):
            for _ in self._of.frozen.fetch(run_id, folder, names=INPUT_FILES):
                pass
        else:
            copy_frozen(spec, self._of.folder(run_id), folder)

    def _check(self, upload: str) -> None:
        """Raises `NotFound` when there is no such upload. Runs that are prepared together ask once."""
        if self._staging is None:
            self._uploads.get(upload)
        else:
            self._staging.once(upload, self._uploads.get)

    def _checked(self, spec: RunSpec, granted: Collection[str], environ: Mapping[str, str]) -> Secrets:
        """The secrets of a task that may be submitted. Raises `BadInput`."""
        self._check_reach(spec.sandbox)
        if spec.fan_out is not None:
            self._of.policy.fan_out.check(len(spec.fan_out.children()))
        return find_secrets(spec, self._granted(granted), environ)

    def _check_reach(self, sandbox: TaskSandbox) -> None:
        """Raises `BadInput` when no worker could make it. For runs that are prepared together each list is looked at once."""
        if self._staging is None:
            check_reach(sandbox, self._of)
        else:
            self._staging.once(f"{sandbox.asked} {sandbox.weaker_isolation}", lambda _: check_reach(sandbox, self._of))

    def _granted(self, granted: Collection[str]) -> frozenset[str]:
        return self._of.settings.allowed_secrets | frozenset(granted)

    def _environ(self, secrets: Mapping[str, str]) -> dict[str, str]:
        """What somebody elsewhere has for variables: what came along, and what the operator gives everybody."""
        given = {name: os.environ[name] for name in self._of.settings.allowed_secrets if name in os.environ}
        return {**given, **secrets}

    def _frozen(self, new: NewRun, secrets: Secrets, freeze: Callable[[RunFolder], None]) -> NewRun:
        """The run with all that it needs in its folder, or in the place that all machines see."""
        folder = self._of.folder(new.id)
        folder.remove()  # a request that named the run beforehand may have died here
        try:
            folder.create()
            freeze(folder)
            folder.write_secrets(secrets)
            return replace(new, frozen=self._of.frozen.send(new.id, folder))
        except BaseException:
            folder.remove()
            raise
