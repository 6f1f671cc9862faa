"""Making a sandbox: the image, the request that is never granted twice, and the toolbox that is brought in."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Mapping
from typing import Final

import modal
from modal.exception import AlreadyExistsError

from sandboxes.errors import FanfoldSandboxError, ProviderUnavailable, SandboxError, SandboxNotFound
from sandboxes.providers.base import SandboxHandle, SandboxSpec, lifetime_stamps
from sandboxes.providers.ids import new_sandbox_id
from sandboxes.providers.modal import layout, tags
from sandboxes.providers.modal.building import BUILD_SECONDS
from sandboxes.providers.modal.exec import SandboxExec
from sandboxes.providers.modal.platform import Platform
from sandboxes.toolbox.bundle import bundle

CREATE_SECONDS: Final = 120.0
"""How long the platform may take to answer that a sandbox is made."""
BOOT_SECONDS: Final = 120.0
"""How long a sandbox may take from there to its first answer."""
_MEBIBYTE: Final = 1024**2
PROVIDER: Final = "modal"


class Maker:
    """Makes sandboxes in one app."""

    def __init__(self, platform: Platform, default_image: str) -> None:
        self._platform = platform
        self._default_image = default_image
        self._images: dict[str, modal.Image] = {}

    async def make(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None, copied: modal.Image | None = None
    ) -> SandboxHandle:
        """Make a sandbox of the spec's image, or of a copy of another one's files."""
        sandbox_id = new_sandbox_id()
        created_at, expires_at = lifetime_stamps(spec)
        told = {"id": sandbox_id, "labels": dict(labels or {}), "created_at": created_at, "expires_at": expires_at}
        marks = {**tags.labels_as_tags(labels or {}), **tags.packed({**told, "workdir": spec.workdir, **spec.told()})}
        image = copied or await self._image(spec.image or self._default_image)
        await self._started(sandbox_id, self._asked(sandbox_id, spec, image, marks, inherited=copied is not None))
        try:
            transport = await self._install(sandbox_id)
        except BaseException:
            with contextlib.suppress(FanfoldSandboxError):  # why it could not be installed is what is told
                await asyncio.shield(self._platform.terminate(sandbox_id))
            raise
        data = {"transport": transport, "workdir": spec.workdir, **spec.told()}
        return SandboxHandle(PROVIDER, sandbox_id, dict(labels or {}), created_at, expires_at, data)

    async def _image(self, name: str) -> modal.Image:
        """An image of a registry, or of Modal by its id (`im-...`); built once for each provider."""
        if name not in self._images:
            client, app = await self._platform.client(), await self._platform.app()
            if name.startswith("im-"):
                self._images[name] = modal.Image.from_id(name, client=client)
            else:
                building = modal.Image.from_registry(name).build.aio(app)
                self._images[name] = await self._platform.ask(f"get the image {name!r}", building, BUILD_SECONDS)
        return self._images[name]

    async def _asked(
        self, sandbox_id: str, spec: SandboxSpec, image: modal.Image, marks: dict[str, str], *, inherited: bool
    ) -> modal.Sandbox:
        """The request for a sandbox. Its name is its id: so there is never a second one, however often this is asked."""
        client = await self._platform.client()
        limits = spec.resources
        memory = None if limits.memory is None else math.ceil(limits.memory / _MEBIBYTE)
        try:
            return await modal.Sandbox.create.aio(
                *layout.boot(sandbox_id, spec, inherited=inherited),
                app=await self._platform.app(),
                name=sandbox_id,
                tags=marks,
                image=image,
                secrets=[modal.Secret.from_dict({"HOME": layout.HOME, **spec.env})],
                timeout=math.ceil(spec.lifetime),
                cpu=None if limits.cpu is None else (limits.cpu, limits.cpu),
                memory=None if memory is None else (memory, memory),
                block_network=spec.network == "none",
                outbound_domain_allowlist=list(spec.allowed_hosts) if spec.network == "allowlist" else None,
                client=client,
            )
        except AlreadyExistsError:  # the answer to an earlier try was lost
            return await self._platform.look_up(sandbox_id)

    async def _started(self, sandbox_id: str, asked: Awaitable[modal.Sandbox]) -> None:
        """Await a request for a sandbox. When this raises there is none, or it ends unclaimed."""
        asking = asyncio.ensure_future(self._platform.ask("make a sandbox", asked, CREATE_SECONDS))
        try:
            self._platform.met(sandbox_id, await asyncio.shield(asking))
        except ProviderUnavailable as exc:
            if type(exc) is not ProviderUnavailable or not await self._was_made(sandbox_id):
                raise
        except asyncio.CancelledError:
            # It may have been sent: what it makes is known only at its end.
            await asyncio.wait([asking])
            asking.exception()  # of no interest any more
            with contextlib.suppress(FanfoldSandboxError):
                await self._platform.terminate(sandbox_id)
            raise
        except SandboxNotFound as exc:
            raise SandboxNotFound(f"the image that the sandbox was to be made of is gone from Modal: {exc}") from exc

    async def _was_made(self, sandbox_id: str) -> bool:
        """Whether a sandbox is there whose making was not confirmed."""
        try:
            self._platform.met(sandbox_id, await self._platform.look_up(sandbox_id))
        except (SandboxError, ProviderUnavailable):
            return False
        return True

    async def _install(self, sandbox_id: str) -> str:
        """Bring the toolbox in; the transport that the sandbox needs."""
        run = SandboxExec(self._platform, sandbox_id, root=True)
        argv = layout.install(sandbox_id, len(bundle()))
        return read_transport(*await run.printed(argv, bundle(), deadline=BOOT_SECONDS, cap=4096))


def read_transport(stdout: bytes, stderr: str) -> str:
    """The transport that a sandbox tells, `helper` or `sh`. Raises `SandboxError` with why it has none."""
    transport = stdout.decode("utf-8", "replace").strip()
    if transport not in ("helper", "sh"):
        why = transport.removeprefix("failed: ") or stderr.strip() or "it said nothing"
        raise SandboxError(f"the Modal sandbox has not come up: {why[:500]}")
    return transport
