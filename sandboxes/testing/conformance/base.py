"""What every group of checks stands on: the fixtures, the gaps and a few ways to ask a sandbox something."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from sandboxes.errors import Unsupported
from sandboxes.protocol import ExecuteResponse
from sandboxes.providers.base import Capabilities, SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.sandbox import Command, CommandResult, Sandbox

ProviderFactory = Callable[[], SandboxProvider]
"""Makes the provider. It must be picklable (a class, or `functools.partial` of one): checks make it in another process too."""

ANSWER_DEADLINE = 30.0
"""Seconds within which a sandbox must have answered an ordinary call, on a busy machine too."""
STEP = 0.02
"""Seconds between two looks at a condition that is waited for."""


@dataclass(frozen=True)
class Made:
    """A sandbox that a check made for itself."""

    handle: SandboxHandle
    sandbox: Sandbox


class Maker:
    """Makes sandboxes for one check, and destroys them after it."""

    def __init__(self, provider: SandboxProvider, spec: SandboxSpec) -> None:
        self.provider = provider
        self.spec = spec
        self.labels = {"fanfold-check": uuid.uuid4().hex}
        self._handles: list[SandboxHandle] = []
        self._clients: list[Sandbox] = []

    def variant(self, **changes: Any) -> SandboxSpec:
        """The spec under test with other values, validated."""
        return SandboxSpec.model_validate({**self.spec.model_dump(), **changes})

    async def handle(self, **changes: Any) -> SandboxHandle:
        """A new sandbox, not attached."""
        made = await self.provider.create(self.variant(**changes), self.labels)
        self._handles.append(made)
        return made

    async def attach(self, handle: SandboxHandle) -> Sandbox:
        """A new client of a sandbox; closed after the check."""
        client = await self.provider.attach(handle)
        self._clients.append(client)
        return client

    async def __call__(self, **changes: Any) -> Made:
        """A new sandbox, attached."""
        made = await self.handle(**changes)
        return Made(made, await self.attach(made))

    async def or_refused(self, **changes: Any) -> Made | None:
        """A new sandbox if the provider declares that it can give what `changes` ask for.

        Otherwise it must refuse with the reason, and this returns None: what is not declared is never quietly weakened.
        """
        missing = (await self.provider.capabilities()).missing(self.variant(**changes))
        if not missing:
            return await self(**changes)
        with pytest.raises(Unsupported) as refusal:
            await self.handle(**changes)
        assert all(reason in str(refusal.value) for reason in missing)
        assert await self.provider.find(self.labels) == []
        return None

    async def fork(self, handle: SandboxHandle, count: int = 1, **options: Any) -> list[SandboxHandle]:
        """Forks of a sandbox, none of which may fail."""
        made = await self.provider.fork(handle, count, **{"labels": self.labels, **options})
        children = [one for one in made if isinstance(one, SandboxHandle)]
        self._handles += children
        assert len(children) == count, made
        return children

    async def clean(self) -> None:
        """Close every client, destroy every sandbox and delete every snapshot."""
        for client in self._clients:
            await client.aclose()
        for handle in [*self._handles, *await self.provider.find(self.labels)]:
            await self.provider.destroy(handle)
        for snapshot in await self.provider.find_snapshots(self.labels):
            await self.provider.delete_snapshot(snapshot)


class Checks:
    """Base of the groups of checks. A test class inherits groups and lives where a `provider_factory` fixture can be seen."""

    pytestmark = pytest.mark.asyncio(loop_scope="class")

    spec: ClassVar[SandboxSpec] = SandboxSpec()
    """The sandbox to check."""
    gaps: ClassVar[Mapping[str, str]] = {}
    """Checks that this provider is known to fail, by name (`test_x`, or `test_x[param]` for one case), and why.

    Each becomes a strict expected failure: a gap that has been closed must be taken off the list.
    """

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def provider(cls, provider_factory: ProviderFactory) -> AsyncIterator[SandboxProvider]:
        """The provider under test."""
        made = provider_factory()
        yield made
        await made.aclose()

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def capabilities(cls, provider: SandboxProvider) -> Capabilities:
        """What the provider declares."""
        return await provider.capabilities()

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared(cls, provider: SandboxProvider) -> AsyncIterator[Made]:
        """One sandbox for all checks of the class that leave it usable."""
        maker = Maker(provider, cls.spec)
        try:
            yield await maker()
        finally:
            await maker.clean()

    @pytest.fixture
    def sandbox(self, shared: Made) -> Sandbox:
        """The shared sandbox, attached."""
        return shared.sandbox

    @pytest_asyncio.fixture(loop_scope="class")
    async def fresh(self, provider: SandboxProvider) -> AsyncIterator[Maker]:
        """Makes sandboxes that belong to this check alone: `made = await fresh(network="none")`."""
        maker = Maker(provider, self.spec)
        try:
            yield maker
        finally:
            await maker.clean()

    @pytest_asyncio.fixture(loop_scope="class")
    async def place(self, sandbox: Sandbox, request: pytest.FixtureRequest) -> str:
        """An empty folder in the shared sandbox for this check alone; an absolute path."""
        name = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
        path = f"{sandbox.workdir}/kit/{name}"
        await ok(sandbox, f"mkdir -p {path}")
        return path

    @pytest.fixture(autouse=True)
    def _known_gap(self, request: pytest.FixtureRequest) -> None:
        reason = self.gaps.get(request.node.name) or self.gaps.get(request.node.originalname)
        if reason:
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))

    async def test_every_gap_names_a_check(self) -> None:
        """A gap with a wrong name would hide nothing and explain nothing."""
        unknown = [gap for gap in self.gaps if not hasattr(self, gap.partition("[")[0])]
        assert unknown == []


async def ok(sandbox: Sandbox, script: str) -> str:
    """The output of a shell script that must succeed."""
    async with asyncio.timeout(ANSWER_DEADLINE):
        result = await sandbox.aexecute(script)
    assert result.exit_code == 0, f"{script!r} ended with {result.exit_code}: {result.output[-2000:]}"
    return result.output


async def fails(sandbox: Sandbox, script: str) -> ExecuteResponse:
    """The result of a shell script that must fail."""
    async with asyncio.timeout(ANSWER_DEADLINE):
        result = await sandbox.aexecute(script)
    assert result.exit_code not in (0, None), f"{script!r} succeeded: {result.output[-2000:]}"
    return result


async def put(sandbox: Sandbox, path: str, content: bytes | str) -> str:
    """Put a file there (overwriting); returns its path."""
    data = content.encode() if isinstance(content, str) else content
    responses = await sandbox.aupload_files([(path, data)])
    assert [response.error for response in responses] == [None]
    return path


async def get(sandbox: Sandbox, path: str) -> bytes:
    """The bytes of a file, which must be there."""
    [response] = await sandbox.adownload_files([path])
    assert response.error is None
    assert response.content is not None
    return response.content


async def until(
    condition: Callable[[], Awaitable[bool]], what: str, deadline: float = ANSWER_DEADLINE, step: float = STEP
) -> None:
    """Wait until `condition` holds, looking every `step` seconds; fail with `what` after `deadline` seconds."""
    end = time.monotonic() + deadline
    while not await condition():
        assert time.monotonic() < end, f"not within {deadline} s: {what}"
        await asyncio.sleep(step)


async def exists(sandbox: Sandbox, path: str) -> bool:
    """Whether something is there (a dangling link counts)."""
    return (await sandbox.aexecute(f"[ -e {shlex.quote(path)} ] || [ -L {shlex.quote(path)} ]")).exit_code == 0


async def walled(sandbox: Sandbox) -> None:
    """Prove, before a sandbox is attacked from inside, that it shares neither files nor processes with this machine.

    A check must do no harm when the provider is broken: whoever runs the suite may be root.
    """
    mark = f".fanfold-check-{uuid.uuid4().hex}"
    for folder in {tempfile.gettempdir(), str(Path.home()), "/var/tmp", "/run", "/etc"}:
        if not os.access(folder, os.W_OK):
            continue
        marker = Path(folder) / mark
        marker.touch()
        try:
            assert not await exists(sandbox, str(marker)), f"{folder} of this machine is seen inside: not attacking that"
        finally:
            marker.unlink()
    decoy = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", mark, stdin=asyncio.subprocess.PIPE)
    try:
        seen = await ok(sandbox, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; true")
        assert mark not in seen, "processes of this machine are seen inside: not attacking that"
    finally:
        decoy.kill()
        await decoy.wait()


async def finished(command: Command) -> tuple[bytes, bytes, CommandResult]:
    """Stdout, stderr and the result of a command, all of it."""
    parts: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    async with asyncio.timeout(ANSWER_DEADLINE):
        async for chunk in command.output():
            parts[chunk.stream].append(chunk.data)
        return b"".join(parts["stdout"]), b"".join(parts["stderr"]), await command.wait()
