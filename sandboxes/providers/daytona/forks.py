"""Copies of sandboxes on the platform: its own forks, where a sandbox's class has them, and snapshots."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from daytona import (
    AsyncDaytona,
    AsyncSandbox,
    DaytonaBadRequestError,
    DaytonaConflictError,
    DaytonaError,
    DaytonaForbiddenError,
    DaytonaUnprocessableEntityError,
)

from sandboxes.errors import FanfoldSandboxError, SandboxError
from sandboxes.providers import copying
from sandboxes.providers.base import Forked, SandboxHandle, SandboxSpec, lifetime_stamps
from sandboxes.providers.daytona import making, names, records
from sandboxes.providers.daytona.account import PAUSE, Account
from sandboxes.providers.daytona.errors import is_full, translated
from sandboxes.providers.ids import new_sandbox_id

if TYPE_CHECKING:
    from sandboxes.providers.daytona.provider import DaytonaProvider

COPY_SECONDS: Final = 600.0
"""How long the platform may take to copy a sandbox."""
BUSY_SECONDS: Final = 120.0
"""How long a parent may be busy with another fork, or with a snapshot."""
PAGE: Final = 100
PAGES: Final = 100
"""Pages of snapshots that are looked through at most."""
LEFT_SECONDS: Final = 3600.0
"""After which the snapshot of a fork is nobody's any more: no fork takes as long."""


def fits(spec: SandboxSpec, parent: SandboxSpec) -> bool:
    """Whether a copy of a whole sandbox can be what `spec` asks for."""
    same = ("image", "system", "workdir", "network", "allowed_hosts")
    limits = ("cpu", "memory", "disk")
    alike = all(getattr(spec, name) == getattr(parent, name) for name in same)
    return alike and all(getattr(spec.resources, name) == getattr(parent.resources, name) for name in limits)


class _NotHere(Exception):
    """The platform cannot copy this sandbox in this way."""


async def native(
    provider: DaytonaProvider,
    account: Account,
    parent: AsyncSandbox,
    spec: SandboxSpec,
    each: Sequence[Mapping[str, str]],
) -> list[Forked] | None:
    """Forks of the platform's own, for each its handle or why there is none; None when this sandbox cannot be forked.

    A parent is forked once at a time: the requests come one after the other, what follows them goes on side by side.
    """
    gate = asyncio.Lock()

    async def child(labels: Mapping[str, str]) -> SandboxHandle:
        plan = records.Plan(new_sandbox_id(), dict(labels), *lifetime_stamps(spec))

        async def make() -> SandboxHandle:
            async with gate:
                marked = records.forking(parent.labels, plan)
                await account.run("mark a sandbox", lambda _: parent.set_labels(marked))
                made = await account.there(_forked(account, parent, plan.id))
            wanted = records.labels(plan, spec, None)
            await account.run("label a fork", lambda _: made.set_labels(wanted))
            await account.run("limit a fork", lambda _: made.set_ttl(records.minutes(spec)))
            return await provider.adopted(made, spec, plan, copied=True)

        return await provider.all_or_nothing(make(), [plan.id])

    try:
        [first] = await copying.settled([child(each[0])], provider)
    except _NotHere:
        return None
    try:
        rest = await copying.settled([child(one) for one in each[1:]], provider) if each[1:] else []
    except BaseException:
        if isinstance(first, SandboxHandle):
            await asyncio.shield(provider.destroy(first))
        raise
    return [first, *rest]


async def _forked(account: Account, parent: AsyncSandbox, name: str) -> AsyncSandbox:
    """One fork, that runs. Raises `_NotHere`, or ours."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return await parent.fork(name, timeout=COPY_SECONDS)
        except (DaytonaUnprocessableEntityError, DaytonaForbiddenError) as exc:
            if is_full(exc):
                raise translated(exc, "fork a sandbox") from exc
            raise _NotHere from exc
        except (DaytonaError, OSError, TimeoutError) as exc:
            found = await account.find(name)
            if found is not None:
                return await making.started(account, found, COPY_SECONDS)
            if not _is_busy(exc) or time.monotonic() > end:
                raise translated(exc, "fork a sandbox") from exc
        await asyncio.sleep(PAUSE)


def _is_busy(exc: BaseException) -> bool:
    busy = isinstance(exc, DaytonaBadRequestError) and "started state" in str(exc)
    return busy or isinstance(exc, DaytonaConflictError)


async def by_snapshot(
    provider: DaytonaProvider,
    account: Account,
    parent: AsyncSandbox,
    spec: SandboxSpec,
    each: Sequence[Mapping[str, str]],
) -> list[Forked] | None:
    """Children of one snapshot, which goes when they are made; None when this sandbox cannot be kept."""
    name = names.name_for_fork(records.NAME, parent.name, spec.workdir)
    if name is None:
        return None
    marked = {**parent.labels, records.KEEPING: name}  # whoever destroys the parent finds it, though we are killed meanwhile
    await account.run("mark a sandbox", lambda _: parent.set_labels(marked))
    if not await kept(account, parent, name):
        return None
    try:
        return await copying.settled([provider.made(spec, one, snapshot=name) for one in each], provider)
    finally:
        await asyncio.shield(making.forget(account, name))


async def kept(account: Account, parent: AsyncSandbox, name: str) -> bool:
    """Keep a sandbox as a snapshot of this name; False when this sandbox cannot be. Given up, it leaves none."""
    keeping = asyncio.ensure_future(account.there(_keep(account, parent, name)))
    try:
        return await asyncio.shield(keeping)
    except BaseException:
        if not keeping.done():
            await asyncio.wait([keeping], timeout=COPY_SECONDS)
        with contextlib.suppress(FanfoldSandboxError):
            await making.forget(account, name)
        raise


async def _keep(account: Account, parent: AsyncSandbox, name: str) -> bool:
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            await parent.create_snapshot(name, timeout=COPY_SECONDS)
            return await _active(account, name)
        except (DaytonaUnprocessableEntityError, DaytonaForbiddenError) as exc:
            if is_full(exc):
                raise translated(exc, "keep a snapshot") from exc
            return False
        except (DaytonaError, OSError, TimeoutError) as exc:
            if any(name == one for one, _ in await snapshots(account)):
                return await _active(account, name)
            if not _is_busy(exc) or time.monotonic() > end:
                raise translated(exc, "keep a snapshot") from exc
        await asyncio.sleep(PAUSE)


async def _active(account: Account, name: str) -> bool:
    """Wait until a snapshot can be used: the platform tells it only when it is asked. Raises `SandboxError`."""
    end = time.monotonic() + COPY_SECONDS
    pause = PAUSE / 10
    while time.monotonic() < end:
        found = await account.run("look at a snapshot", lambda client: client.snapshot.get(name))
        state = str(getattr(found.state, "value", found.state))
        if state == "active":
            return True
        if state in ("error", "build_failed", "removing"):
            raise SandboxError(f"Daytona could not keep the sandbox: {found.error_reason or state}")
        await asyncio.sleep(pause)
        pause = min(2 * pause, 1.0)
    raise SandboxError(f"Daytona did not keep the sandbox within {COPY_SECONDS:g} s")


async def snapshots(account: Account) -> list[tuple[str, str]]:
    """The names of all snapshots of the account, and when they were made."""

    async def listed(client: AsyncDaytona) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for page in range(1, PAGES + 1):
            answer = await client.snapshot.list(page=page, limit=PAGE)
            found += [(one.name, one.created_at.isoformat()) for one in answer.items]
            if page >= answer.total_pages:
                break
        return found

    return await account.run("list snapshots", listed)


async def sweep(account: Account) -> None:
    """Delete the snapshots of forks whose makers were killed long ago."""
    for name, made in await snapshots(account):
        age = datetime.now(UTC) - datetime.fromisoformat(made)
        if names.fork_of(name) is not None and age.total_seconds() > LEFT_SECONDS:
            await making.forget(account, name)
