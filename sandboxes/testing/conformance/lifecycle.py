"""Checks of a sandbox's life: made, found, adopted, ended, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import pytest

from sandboxes.errors import FanfoldSandboxError, ImageNotFound, SandboxError, SandboxGone, SandboxNotFound, Unsupported
from sandboxes.providers.base import Capabilities, SandboxHandle, SandboxProvider
from sandboxes.sandbox import CommandSpec, Sandbox
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, Made, Maker, exists, finished, get, ok, until

ASKED: dict[str, dict[str, object]] = {
    "image": {"image": "fanfold.invalid/no/such:image"},
    "dockerfile": {"image": None, "dockerfile": {"path": "/fanfold/no/such/Dockerfile"}},
    "rootfs": {"rootfs": "/fanfold/no/such/rootfs"},
    "system: overlay": {"system": "overlay"},
    "user": {"user": "12345:12345"},
    "resources.cpu": {"resources": {"cpu": 1}},
    "resources.memory": {"resources": {"memory": "256MiB"}},
    "resources.pids": {"resources": {"pids": 64}},
    "resources.disk": {"resources": {"disk": "64MiB"}},
    "mounts": {"mounts": [{"target": "/usr/share", "mode": "hidden"}]},
    "idle_timeout": {"idle_timeout": 60},
    "runtime": {"runtime": "no-such-runtime"},
    "network: public": {"network": "public"},
    "network: allowlist": {"network": "allowlist", "allowed_hosts": ["allowed.invalid"]},
}
"""For each thing that `Capabilities.missing` names, a spec that asks for it."""

SHORT = 2.0
"""Seconds of a short life."""
PAUSED = 1.0
"""Seconds that a sandbox stands still: the time itself is what is looked at."""


async def has_gap(sandbox: Sandbox, seconds: float) -> bool:
    """Whether two of its ticks, one after the other, are so far apart."""
    ticks = [int(line) for line in (await ok(sandbox, "cat ticks")).split()]
    return any(after - before >= seconds * 1e9 for before, after in itertools.pairwise(ticks))


class LifecycleChecks(Checks):
    """From create to destroy."""

    finds_ended: ClassVar[bool] = True
    """Whether `find` shows what has ended until it is destroyed: False for a platform that leaves nothing of it."""

    async def test_a_handle_is_plain_json_and_says_what_was_made(self, provider: SandboxProvider, fresh: Maker) -> None:
        handle = await fresh.handle(lifetime=1234)
        assert SandboxHandle.from_json(json.loads(json.dumps(handle.to_json()))) == handle
        assert (handle.provider, dict(handle.labels)) == (provider.name, fresh.labels)
        life = datetime.fromisoformat(handle.expires_at) - datetime.fromisoformat(handle.created_at)
        assert life.total_seconds() == pytest.approx(1234, abs=1)

    async def test_a_paused_sandbox_stands_still_and_goes_on(self, provider: SandboxProvider, fresh: Maker) -> None:
        if not (await provider.capabilities()).pause:
            with pytest.raises(Unsupported):
                await provider.pause(await fresh.handle())
            return
        made = await fresh()
        ticks = "while :; do date +%s%N >> ticks; sleep 0.02; done"
        ticking = await made.sandbox.start(CommandSpec(ticks), call_id="ticks")
        await until(lambda: exists(made.sandbox, "ticks"), "it ticks")
        await made.sandbox.aclose()
        for _ in range(2):
            await provider.pause(made.handle)
        await asyncio.sleep(PAUSED)
        for _ in range(2):
            await provider.resume(made.handle)
        async with await provider.attach(made.handle) as again:
            await until(lambda: has_gap(again, PAUSED * 0.9), "it goes on ticking after a pause")
            running = await again.command(ticking.call_id)
            assert running is not None
            await running.kill()

    async def test_a_paused_sandbox_can_be_destroyed(self, provider: SandboxProvider, fresh: Maker) -> None:
        if not (await provider.capabilities()).pause:
            return
        handle = await fresh.handle()
        await provider.pause(handle)
        await provider.destroy(handle)
        assert handle.id not in [found.id for found in await provider.find(fresh.labels)]
        with pytest.raises(SandboxNotFound):
            await provider.resume(handle)

    async def test_a_handle_holds_no_secret(self, fresh: Maker) -> None:
        handle = await fresh.handle(env={"KIT_TOKEN": "s3cret-value"})
        assert "s3cret-value" not in json.dumps(handle.to_json())

    async def test_the_spec_decides_environment_and_working_directory(self, fresh: Maker) -> None:
        made = await fresh(env={"KIT_A": "one two", "KIT_B": "ü"}, workdir="/workspace/deep/er")
        assert made.sandbox.workdir == "/workspace/deep/er"
        assert await ok(made.sandbox, 'pwd; echo "$KIT_A $KIT_B"; : > writable') == "/workspace/deep/er\none two ü\n"

    async def test_the_spec_decides_the_user(self, fresh: Maker) -> None:
        made = await fresh.or_refused(user="12345:12346")
        if made is not None:
            assert await ok(made.sandbox, "id -u; id -g; : > writable") == "12345\n12346\n"

    async def test_a_new_sandbox_is_empty(self, fresh: Maker) -> None:
        made = await fresh()
        assert (await made.sandbox.als(".")).entries == []

    async def test_many_sandboxes_can_be_made_at_once(self, fresh: Maker) -> None:
        made = await asyncio.gather(*(fresh() for _ in range(4)))
        assert len({one.handle.id for one in made}) == 4
        assert len({one.sandbox.id for one in made}) == 4
        await asyncio.gather(*(one.sandbox.awrite("own", one.handle.id) for one in made))
        contents = [await get(one.sandbox, "own") for one in made]
        assert contents == [one.handle.id.encode() for one in made]

    async def test_two_clients_of_one_sandbox_work_side_by_side(self, shared: Made, fresh: Maker, place: str) -> None:
        other = await fresh.attach(shared.handle)
        assert other.id == shared.sandbox.id
        assert (await shared.sandbox.awrite(f"{place}/a", "from one")).error is None
        assert (await other.aedit(f"{place}/a", "one", "the other")).error is None
        assert await get(shared.sandbox, f"{place}/a") == b"from the other"

    async def test_closing_a_client_ends_neither_the_sandbox_nor_another_client(
        self, shared: Made, provider: SandboxProvider
    ) -> None:
        async with await provider.attach(shared.handle) as other:
            assert await ok(other, "echo fine") == "fine\n"
        await other.aclose()
        with pytest.raises(SandboxError):
            await other.als(".")
        assert await ok(shared.sandbox, "echo fine") == "fine\n"

    async def test_sandboxes_are_found_by_their_labels(self, provider: SandboxProvider, fresh: Maker) -> None:
        mine = uuid.uuid4().hex
        labels = [{"kit": mine, "role": "a b=c,ü"}, {"kit": mine, "role": "other"}]
        handles = [await provider.create(self.spec, one) for one in labels]
        try:
            assert {one.id for one in await provider.find({"kit": mine})} == {one.id for one in handles}
            [found] = await provider.find(labels[0])
            assert (found.id, dict(found.labels)) == (handles[0].id, labels[0])
            assert {one.id for one in handles} <= {one.id for one in await provider.find()}
            assert await provider.find({"kit": mine, "role": "none"}) == []
            assert await ok(await fresh.attach(found), "echo fine") == "fine\n"
        finally:
            for handle in handles:
                await provider.destroy(handle)
        assert await provider.find({"kit": mine}) == []

    async def test_destroying_is_final_and_can_be_repeated(self, provider: SandboxProvider, fresh: Maker) -> None:
        handle = await fresh.handle()
        for _ in range(2):
            await provider.destroy(handle)
        await asyncio.gather(provider.destroy(handle), provider.destroy(handle))
        with pytest.raises(SandboxNotFound):
            await provider.attach(handle)
        assert await provider.find(fresh.labels) == []

    async def test_destroying_ends_the_calls_that_wait(self, provider: SandboxProvider, fresh: Maker) -> None:
        made = await fresh()
        waiting = asyncio.create_task(made.sandbox.aexecute("echo started > started; sleep 600"))
        await until(lambda: _has(made, "started"), "the command runs")
        await provider.destroy(made.handle)
        async with asyncio.timeout(ANSWER_DEADLINE):
            with pytest.raises(SandboxError):
                await waiting
            with pytest.raises(SandboxError):
                await made.sandbox.als(".")

    async def test_destroying_leaves_no_process_on_the_host(self, provider: SandboxProvider, fresh: Maker) -> None:
        made = await fresh()
        marker = f"kit-{uuid.uuid4().hex}"
        await made.sandbox.start(CommandSpec(f"setsid sh -c 'sleep 600; : {marker}' & sleep 600; : {marker}"))
        await provider.destroy(made.handle)

        async def gone() -> bool:
            return not any(marker.encode() in _read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))

        await until(gone, "every process of the sandbox is gone")

    async def test_an_unknown_handle_is_not_found(self, provider: SandboxProvider, fresh: Maker) -> None:
        handle = await fresh.handle()
        await provider.destroy(handle)
        forged = SandboxHandle.from_json({**handle.to_json(), "id": "sbx-0000000000000000"})
        with pytest.raises(SandboxNotFound):
            await provider.attach(forged)
        await provider.destroy(forged)

    @pytest.mark.parametrize("kind", ["absolute", "upwards", "nul", "long", "shell", "dash"])
    async def test_a_forged_handle_reaches_nothing(
        self, provider: SandboxProvider, fresh: Maker, tmp_path: Path, kind: str
    ) -> None:
        decoy = tmp_path / "decoy"  # whatever a broken provider does to it hurts nobody
        decoy.mkdir()
        (decoy / "handle.json").write_text("{}")
        id_ = {
            "absolute": str(decoy),
            "upwards": "../" * 40 + str(decoy)[1:],
            "nul": "sbx-x\0y",
            "long": "sbx-" + "x" * 5000,
            "shell": "sbx-$(id)",
            "dash": "-rf",
        }[kind]
        handle = await fresh.handle()
        forged = SandboxHandle.from_json({**handle.to_json(), "id": id_, "data": {}})
        with pytest.raises(FanfoldSandboxError):
            await provider.attach(forged)
        with contextlib.suppress(FanfoldSandboxError):  # to refuse is as good as to find nothing
            await provider.destroy(forged)
        assert [path.name for path in decoy.iterdir()] == ["handle.json"]
        assert await ok(await fresh.attach(handle), "echo fine") == "fine\n"

    async def test_a_sandbox_ends_with_its_lifetime_whatever_runs_in_it(
        self, provider: SandboxProvider, fresh: Maker
    ) -> None:
        made = await fresh(lifetime=SHORT)
        waiting = asyncio.create_task(made.sandbox.aexecute("sleep 600"))
        async with asyncio.timeout(ANSWER_DEADLINE):
            with pytest.raises(SandboxError):
                await waiting
        await until(lambda: _ended(provider, made.handle), "the sandbox has ended")
        with pytest.raises(SandboxGone):
            await provider.attach(made.handle)
        there = [made.handle.id] if self.finds_ended else []
        assert [handle.id for handle in await provider.find(fresh.labels)] == there
        await provider.destroy(made.handle)
        assert await provider.find(fresh.labels) == []

    async def test_an_idle_sandbox_ends_and_a_busy_one_does_not(self, provider: SandboxProvider, fresh: Maker) -> None:
        idle = await fresh.or_refused(idle_timeout=SHORT)
        if idle is None:
            return
        busy = await fresh(idle_timeout=SHORT)
        command = await busy.sandbox.start(CommandSpec("read x; echo end", stdin=True))
        await until(lambda: _ended(provider, idle.handle), "the idle sandbox has ended", step=2 * SHORT)
        with pytest.raises(SandboxGone):
            await provider.attach(idle.handle)
        await command.send(b"go\n")
        assert (await finished(command))[0] == b"end\n"

    @pytest.mark.parametrize("what", ASKED)
    async def test_what_is_not_declared_is_refused_with_the_reason(
        self, provider: SandboxProvider, capabilities: Capabilities, fresh: Maker, what: str
    ) -> None:
        spec = fresh.variant(**ASKED[what])
        if what not in capabilities.missing(spec):
            return  # declared: another check proves that it holds
        with pytest.raises(Unsupported, match=what.replace(".", r"\.")) as refusal:
            await provider.create(spec, fresh.labels)
        assert provider.name in str(refusal.value)
        assert await provider.find(fresh.labels) == []

    @pytest.mark.parametrize("what", ["image", "rootfs", "runtime"])
    async def test_what_does_not_exist_is_said_and_leaves_nothing(
        self, provider: SandboxProvider, fresh: Maker, what: str
    ) -> None:
        changes: Mapping[str, object] = ASKED[what]
        expected = (Unsupported, FanfoldSandboxError) if what == "runtime" else (Unsupported, ImageNotFound)
        with pytest.raises(expected) as refusal:
            await fresh.handle(**changes)
        assert what in str(refusal.value) or str(next(iter(changes.values()))) in str(refusal.value)
        assert await provider.find(fresh.labels) == []

    @pytest.mark.parametrize("moment", [0.0, 0.01, 0.05, 0.2])
    async def test_a_create_that_is_given_up_leaves_nothing(
        self, provider: SandboxProvider, fresh: Maker, moment: float
    ) -> None:
        task = asyncio.create_task(provider.create(self.spec, fresh.labels))
        await asyncio.wait([task], timeout=moment)
        task.cancel()
        [made] = await asyncio.gather(task, return_exceptions=True)
        if isinstance(made, SandboxHandle):  # it was quicker
            await provider.destroy(made)

        async def gone() -> bool:
            return await provider.find(fresh.labels) == []

        await until(gone, "nothing is left of the sandbox")


async def _has(made: Made, path: str) -> bool:
    return (await made.sandbox.aexecute(f"[ -e {path} ]")).exit_code == 0


async def _ended(provider: SandboxProvider, handle: SandboxHandle) -> bool:
    """Whether it has ended. Asking is activity: whoever waits for idleness must not ask often."""
    try:
        client = await provider.attach(handle)
    except SandboxError:
        return True
    await client.aclose()
    return False


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # the process has ended meanwhile
