"""Sandboxes: what there are for the runs of a tenant, ending them, keeping them, and looking into them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from orchestrator.errors import BadInput, Conflict, InfrastructureError, NotFound
from orchestrator.runs.keeping import Keeping, Owner, is_orphan
from orchestrator.runs.labels import ATTEMPT_LABEL, INSTALLATION_LABEL, RUN_LABEL
from orchestrator.runs.sandboxes import Executed, SandboxInfo, SandboxListing
from orchestrator.sandboxspec import MAX_KEEP
from orchestrator.service.installation import Installation
from orchestrator.service.looking import DEFAULT_EXEC_TIMEOUT, execute
from sandboxes.errors import FanfoldSandboxError, SandboxGone, SandboxNotFound
from sandboxes.portal import on, portal
from sandboxes.providers.base import SandboxHandle, SandboxProvider
from sandboxes.providers.registry import get_provider, provider_names

FIND_TIMEOUT = 30.0
"""Seconds for a provider to tell its sandboxes."""
DESTROY_TIMEOUT = 60.0
"""Seconds for it to end one of them."""

T = TypeVar("T")
_audit = logging.getLogger("fanfold.audit")


class SandboxRoom:
    """The sandboxes of one tenant's runs, as far as this process reaches them: local ones are those of this machine."""

    def __init__(self, installation: Installation, tenant: str) -> None:
        self._of = installation
        self._tenant = tenant
        self._keeping = Keeping(installation.engine)

    def list(self) -> SandboxListing:
        """All of them."""
        found, unreachable = portal.run(self._find_all(self._of.store.installation()))
        items = [info for _, info in self._told(found)]
        return SandboxListing(sorted(items, key=_newest_first), unreachable)

    def get(self, sandbox_id: str) -> SandboxInfo:
        """The sandbox with this id. Raises `NotFound`."""
        return self._one(sandbox_id)[1]

    def destroy(self, sandbox_id: str, *, force: bool = False) -> None:
        """End a sandbox. Raises `NotFound`, and `Conflict` when its run goes on, unless it is forced: the run loses it then."""
        handle, info = self._one(sandbox_id)
        if info.state == "owned" and not force:
            raise Conflict(f"run {info.run_id} works in sandbox {info.id}: cancel the run, or force it")
        portal.run(self._with(handle, lambda provider: _in_time(provider.destroy(handle), DESTROY_TIMEOUT)))
        self._keeping.let_go(info.id)

    def keep(self, sandbox_id: str, seconds: float) -> SandboxInfo:
        """Have a sandbox stay for so many seconds from now, also when its run has ended; the end of its lifetime ends it.

        Raises `NotFound`, and `BadInput` for more than 24 hours.
        """
        if not 0 < seconds <= MAX_KEEP:
            raise BadInput(f"a sandbox is kept for more than 0 and at most {MAX_KEEP:.0f} seconds, not {seconds:g}")
        info = self.get(sandbox_id)
        self._keeping.keep(info.id, info.run_id, seconds)
        try:
            return self.get(info.id)  # it may have been on its way out
        except NotFound:
            self._keeping.let_go(info.id)
            raise

    def exec(
        self, sandbox_id: str, command: str, *, timeout: float = DEFAULT_EXEC_TIMEOUT, by: str = "a user of this machine"
    ) -> Executed:
        """Run a shell command in a sandbox and wait for it; `by` is who asked, for the log of what operators did.

        Raises `NotFound`, `BadInput`, `Conflict` when the sandbox has ended, `InfrastructureError`.
        """
        return portal.run(self.aexec(sandbox_id, command, timeout=timeout, by=by))

    async def aexec(self, sandbox_id: str, command: str, *, timeout: float = DEFAULT_EXEC_TIMEOUT, by: str) -> Executed:
        """See `exec`. It holds no thread while the command runs."""
        handle, info = await asyncio.to_thread(self._one, sandbox_id)
        run = await asyncio.to_thread(self._of.store.get, info.run_id)
        names = sorted(run.spec.get("secrets") or {})

        async def look_into(provider: SandboxProvider) -> Executed:
            async with await provider.attach(handle) as sandbox:
                return await execute(sandbox, command, timeout=timeout, secrets=names, begins=begins)

        def begins(told: str) -> None:
            _audit.info("exec by %s of tenant %s in sandbox %s of run %s: %s", by, self._tenant, info.id, info.run_id, told)

        return await on(portal.loop, self._with(handle, look_into))

    def _one(self, sandbox_id: str) -> tuple[SandboxHandle, SandboxInfo]:
        found, unreachable = portal.run(self._find_all(self._of.store.installation()))
        for handle, info in self._told([handle for handle in found if handle.id == sandbox_id]):
            return handle, info
        away = "".join(f"; {name} cannot be asked: {reason}" for name, reason in unreachable.items())
        raise NotFound(f"there is no sandbox {sandbox_id!r:.80} of your runs here; `fanfold sandboxes ls` lists them{away}")

    def _told(self, found: Sequence[SandboxHandle]) -> Sequence[tuple[SandboxHandle, SandboxInfo]]:
        """Those of the sandboxes whose runs are this tenant's."""
        # The record is read after the providers: whatever has been found by now had its run in the record before.
        owners = self._keeping.owners({_run_of(handle) for handle in found}, tenant=self._tenant)
        kept = self._keeping.kept([handle.id for handle in found])
        own = [(handle, owners[_run_of(handle)]) for handle in found if _run_of(handle) in owners]
        return [(handle, _info(handle, owner, kept.get(handle.id))) for handle, owner in own]

    async def _find_all(self, installation: str) -> tuple[Sequence[SandboxHandle], Mapping[str, str]]:
        names = provider_names()
        results = await asyncio.gather(*(self._find(name, installation) for name in names))
        found = [handle for result in results if not isinstance(result, str) for handle in result]
        return found, {name: result for name, result in zip(names, results, strict=True) if isinstance(result, str)}

    async def _find(self, name: str, installation: str) -> Sequence[SandboxHandle] | str:
        """The sandboxes of a provider, or why it cannot tell them."""
        try:
            provider = get_provider(name, home=self._of.settings.home)
            try:
                found = await _in_time(provider.find({INSTALLATION_LABEL: installation}), FIND_TIMEOUT)
            finally:
                await provider.aclose()
        except FanfoldSandboxError as exc:
            return str(exc)
        except TimeoutError:
            return f"it did not answer within {FIND_TIMEOUT:.0f} s"
        return [handle for handle in found if handle.labels.get(INSTALLATION_LABEL) == installation]

    async def _with(self, handle: SandboxHandle, work: Callable[[SandboxProvider], Coroutine[Any, Any, T]]) -> T:
        """Do something with the provider of a sandbox, its errors told as ours."""
        try:
            provider = get_provider(handle.provider, home=self._of.settings.home)
            try:
                return await work(provider)
            finally:
                await provider.aclose()
        except SandboxNotFound as exc:
            raise NotFound(f"sandbox {handle.id} is gone: {exc}") from exc
        except SandboxGone as exc:
            raise Conflict(f"sandbox {handle.id} has ended: {exc}") from exc
        except (FanfoldSandboxError, TimeoutError) as exc:
            raise InfrastructureError(f"sandbox {handle.id}: {exc or 'it did not answer in time'}") from exc


async def _in_time(work: Coroutine[Any, Any, T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await work


def _run_of(handle: SandboxHandle) -> str:
    return handle.labels.get(RUN_LABEL, "")


def _info(handle: SandboxHandle, owner: Owner, kept_until: datetime | None) -> SandboxInfo:
    orphan = is_orphan(handle, handle.labels[INSTALLATION_LABEL], owner)
    attempt = handle.labels.get(ATTEMPT_LABEL, "")
    return SandboxInfo(
        id=handle.id,
        provider=handle.provider,
        run_id=_run_of(handle),
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() else None,
        created_at=_moment(handle.created_at),
        expires_at=_moment(handle.expires_at),
        state="owned" if not orphan else "kept" if kept_until else "orphan",
        kept_until=kept_until,
    )


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _newest_first(info: SandboxInfo) -> tuple[float, str]:
    return (-info.created_at.timestamp() if info.created_at else 0.0, info.id)
