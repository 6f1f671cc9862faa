"""Making a sandbox on the platform, once: an answer that got lost is looked for by the name that we gave."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from daytona import (
    AsyncDaytona,
    AsyncSandbox,
    CreateSandboxFromImageParams,
    CreateSandboxFromSnapshotParams,
    DaytonaConflictError,
    DaytonaError,
    DaytonaNotFoundError,
    DaytonaRateLimitError,
)

from sandboxes.errors import FanfoldSandboxError, ImageBuildFailed, ImageNotFound, RateLimited, SandboxError, SandboxTimeout
from sandboxes.providers.daytona import names, records
from sandboxes.providers.daytona.account import PATIENCE, PAUSE, Account
from sandboxes.providers.daytona.building import Built
from sandboxes.providers.daytona.errors import SAID, is_full, is_refusal, retry_after, translated
from sandboxes.providers.daytona.live import state_of

CREATE_SECONDS: Final = 600.0
"""How long the platform may take to make a sandbox; the first one of an image is built."""
TRIES: Final = 4
"""How often a sandbox is asked for whose request seems to have been lost."""
REMOVE_SECONDS: Final = 60.0
"""How long the platform may refuse to remove what it is still busy with."""
_FAILED: Final = ("error", "build_failed")

Params = CreateSandboxFromImageParams | CreateSandboxFromSnapshotParams


async def make(account: Account, name: str, params: Params, image: str, built: Built | None = None) -> AsyncSandbox:
    """A sandbox of this name that runs. When this raises, there may be one that does not: remove it."""
    return await account.there(_make(account, name, params, image, built))


async def _make(account: Account, name: str, params: Params, image: str, built: Built | None) -> AsyncSandbox:
    client = await account.connected()
    begun = time.monotonic()
    for tried in range(TRIES):
        try:
            return await _asked(client, params, built)
        except DaytonaRateLimitError as exc:
            delay = retry_after(exc)
            if delay is None or time.monotonic() + delay - begun > PATIENCE:
                raise translated(exc, "make a sandbox") from exc
            await asyncio.sleep(delay)
        except (DaytonaError, OSError, TimeoutError) as exc:
            if is_full(exc) or (is_refusal(exc) and not isinstance(exc, DaytonaConflictError)):
                raise _refused(exc, image) from exc
            if type(exc.__cause__) is FileNotFoundError:
                raise ImageBuildFailed("the Dockerfile copies what is not in its context, or is left out of it") from exc
            found = await account.find(name)  # the answer may be all that was lost
            if found is not None:
                return await _awaited(account, found, image, exc, built)
            if tried == TRIES - 1 or time.monotonic() - begun > PATIENCE:
                raise translated(exc, "make a sandbox", retried=time.monotonic() - begun) from exc
            await asyncio.sleep(PAUSE * 2**tried)
    raise RateLimited("Daytona takes no more requests: try to make a sandbox later")


async def _asked(client: AsyncDaytona, params: Params, built: Built | None) -> AsyncSandbox:
    if isinstance(params, CreateSandboxFromSnapshotParams):
        return await client.create(params, timeout=CREATE_SECONDS)
    logs = None if built is None else built.said.append
    return await client.create(params, timeout=CREATE_SECONDS, on_snapshot_create_logs=logs)


def _refused(exc: BaseException, image: str) -> FanfoldSandboxError:
    if isinstance(exc, DaytonaNotFoundError):
        return ImageNotFound(f"Daytona has no snapshot or image {image}: {exc}")
    return translated(exc, "make a sandbox")


async def _awaited(
    account: Account, found: AsyncSandbox, image: str, cause: BaseException, built: Built | None
) -> AsyncSandbox:
    """A sandbox that was made, when it runs at last. Raises why it does not."""
    if state_of(found) in _FAILED:
        why = found.error_reason or "it says no reason"
        if state_of(found) == "build_failed" and built is not None:
            raise ImageBuildFailed(f"Daytona cannot build the Dockerfile: {why[:SAID]}\n{built.last_lines()}") from cause
        if state_of(found) == "build_failed":
            raise ImageNotFound(f"Daytona cannot build image {image}: {why}") from cause
        raise SandboxError(f"Daytona could not start the sandbox: {why}") from cause
    if getattr(cause, "sandbox_id", None):  # it was waited for already
        raise SandboxTimeout(f"Daytona did not start the sandbox within {CREATE_SECONDS:g} s") from cause

    return await started(account, found, CREATE_SECONDS)


async def started(account: Account, found: AsyncSandbox, seconds: float) -> AsyncSandbox:
    """A sandbox, when it runs."""

    async def wait(_: AsyncDaytona) -> AsyncSandbox:
        await found.wait_for_sandbox_start(timeout=seconds)
        return found

    return await account.run("start a sandbox", wait, deadline=seconds)


async def remove(account: Account, name: str) -> None:
    """Remove a sandbox, and before it the snapshot that a fork of it may have left.

    What is gone, or going, is no error; what the platform is busy with is waited for.
    """
    end = time.monotonic() + REMOVE_SECONDS
    account.take(name)  # which says nothing of a fork that another process has begun since
    while (found := await account.find(name)) is not None and state_of(found) != "destroying":
        one = found
        kept = one.labels.get(records.KEEPING, "")
        if names.fork_of(kept) == name:
            await forget(account, kept)

        async def delete(_: AsyncDaytona, one: AsyncSandbox = one) -> None:
            with contextlib.suppress(DaytonaNotFoundError):
                await one.delete()

        try:
            await account.run("remove a sandbox", delete)
            return
        except SandboxError as exc:
            busy = isinstance(exc.__cause__, DaytonaConflictError)
            if not busy or time.monotonic() > end:
                raise
        await asyncio.sleep(PAUSE)


async def forget(account: Account, name: str) -> None:
    """Delete a snapshot. What is gone is no error."""

    async def delete(client: AsyncDaytona) -> None:
        with contextlib.suppress(DaytonaNotFoundError):
            await client.snapshot.delete(name)

    await account.run("delete a snapshot", delete)
