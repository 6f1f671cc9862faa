"""What goes wrong on the way to Modal, and on it: each time the right error, nothing left, and nothing made twice."""

import asyncio
import hashlib
import time

import pytest

from sandboxes.errors import (
    NotAuthenticated,
    ProviderUnavailable,
    QuotaExceeded,
    RateLimited,
    SandboxError,
    SandboxGone,
    SandboxNotFound,
)
from sandboxes.providers.base import SandboxHandle
from sandboxes.providers.modal import ModalProvider, making, platform
from sandboxes.sandbox import CommandSpec
from tests.integration.modal.conftest import IMAGE, until
from tests.wire.modal.faults import ALWAYS
from tests.wire.modal.fleet import Result

pytestmark = pytest.mark.docker
IDLE, LATE, TERMINATED, CRASHED = (
    getattr(Result, f"GENERIC_STATUS_{name}") for name in ("SUCCESS", "TIMEOUT", "TERMINATED", "FAILURE")
)


def made(server, labels):
    """How many sandboxes there ever were for this test."""
    return len([one for one in server.sandboxes(ended=True) if one.tags.get("test") == labels["test"]])


# -- before there is a sandbox


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("quota", QuotaExceeded),
        ("rate-untold", RateLimited),
        ("denied", NotAuthenticated),
        ("unavailable", ProviderUnavailable),
    ],
)
async def test_a_refused_create_says_why_and_leaves_nothing(ready, server, labels, create, kind, error):
    server.faults.add("SandboxCreateV2", kind, times=ALWAYS)
    with pytest.raises(error) as refusal:
        await create()
    assert type(refusal.value) is error
    assert server.sandboxes() == []
    assert made(server, labels) == 1  # that of `ready`


async def test_a_limited_rate_that_is_over_soon_is_waited_for(ready, server, labels, create):
    server.faults.add("SandboxCreateV2", "rate", times=2, seconds=0.2)
    await create()
    assert len(server.sandboxes()) == 1
    assert server.counts.taken()["SandboxCreateV2"].requests == 1 + 3


async def test_a_limited_rate_that_lasts_is_told_with_its_delay(ready, server, create):
    server.faults.add("SandboxCreateV2", "rate", times=ALWAYS, seconds=600)
    begin = time.monotonic()
    with pytest.raises(RateLimited, match="600 s") as refusal:
        await create()
    assert refusal.value.retry_after == 600
    assert time.monotonic() - begin < 30
    assert server.sandboxes() == []


async def test_a_limited_rate_of_commands_is_told_with_its_delay(provider, server, create):
    handle = await create()
    server.faults.add("TaskExecStart", "rate", times=ALWAYS, seconds=600)
    with pytest.raises(RateLimited) as refusal:
        await provider.attach(handle)
    assert refusal.value.retry_after == 600


async def test_a_slow_answer_is_waited_for(ready, server, labels, create):
    server.faults.add("SandboxCreateV2", "slow", seconds=1.5)
    await create()
    assert made(server, labels) == 2


async def test_an_answer_that_does_not_come_is_given_up_and_nothing_is_left(ready, server, create, monkeypatch):
    monkeypatch.setattr(making, "CREATE_SECONDS", 0.5)
    server.faults.add("SandboxCreateV2", "slow", times=ALWAYS, seconds=3600)
    with pytest.raises(ProviderUnavailable, match=r"did not make a sandbox within 0\.5 s"):
        await create()
    assert server.sandboxes() == []


@pytest.mark.parametrize("kind", ["lost-before", "lost-after"])
async def test_a_create_whose_answer_was_lost_is_found_again_and_not_paid_twice(provider, ready, server, labels, create, kind):
    server.faults.add("SandboxCreateV2", kind)
    handle = await create()
    assert made(server, labels) == 2
    async with await provider.attach(handle) as sandbox:
        assert (await sandbox.aexecute("echo fine")).output == "fine\n"


async def test_a_create_that_was_never_confirmed_is_found_by_its_name(provider, ready, server, labels, create, monkeypatch):
    monkeypatch.setattr(making, "CREATE_SECONDS", 3.0)
    server.faults.add("SandboxCreateV2", "lost-after")
    server.faults.add("SandboxCreateV2", "slow", times=ALWAYS, seconds=3600)
    handle = await create()
    assert made(server, labels) == 2
    async with await provider.attach(handle) as sandbox:
        assert (await sandbox.aexecute("echo fine")).output == "fine\n"


async def test_what_cannot_be_installed_is_ended(ready, server, create):
    server.faults.add("TaskExecStart", "denied", times=ALWAYS)
    with pytest.raises(NotAuthenticated):
        await create()
    assert server.sandboxes() == []


async def test_an_image_is_built_once(ready, server, create):
    server.counts.taken()
    await create()
    counted = server.counts.taken()
    assert "ImageGetOrCreate" not in counted
    assert counted["SandboxCreateV2"].requests == 1


# -- keys


async def test_without_a_key_the_way_to_one_is_told(server, monkeypatch):
    for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"):
        monkeypatch.delenv(name)
    with pytest.raises(ProviderUnavailable, match="MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"):
        await ModalProvider(IMAGE).capabilities()


async def test_a_wrong_key_is_refused_with_the_way_to_another(server, monkeypatch):
    monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-wrong")
    provider = ModalProvider(IMAGE)
    with pytest.raises(NotAuthenticated, match="MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"):
        await provider.capabilities()
    await provider.aclose()


async def test_tokens_that_expire_meanwhile_are_renewed(server, labels, create, provider):
    server.keys.life = 3
    handle = await create()
    async with await provider.attach(handle) as sandbox:
        end = time.time() + 4
        await until(lambda: time.time() > end, "the tokens have expired")
        assert (await sandbox.aexecute("echo fine")).output == "fine\n"
        assert [one.id for one in await provider.find(labels)] == [handle.id]


async def test_a_key_that_is_withdrawn_is_told(provider, server, labels, create):
    handle = await create()
    server.keys.expire()
    with pytest.raises(NotAuthenticated):
        await provider.find(labels)
    with pytest.raises(NotAuthenticated):
        await provider.destroy(handle)
    await provider.aclose()  # and a new connection gets new tokens


# -- the network


async def test_a_refused_connection_is_told_at_once(server):
    provider = ModalProvider(IMAGE)
    begin = time.monotonic()
    with server.silent(), pytest.raises(ProviderUnavailable, match=r"cannot be reached.*MODAL_SERVER_URL"):
        await provider.capabilities()
    assert time.monotonic() - begin < 10
    assert (await provider.capabilities()).images  # and later it is there
    await provider.aclose()


async def test_who_was_connected_is_told_too_and_goes_on_after(provider, server, labels, create, monkeypatch):
    monkeypatch.setattr(platform, "REQUEST_SECONDS", 10.0)
    handle = await create()
    with server.silent(), pytest.raises(ProviderUnavailable):
        await provider.find(labels)
    assert [one.id for one in await provider.find(labels)] == [handle.id]
    async with await provider.attach(handle) as sandbox:
        assert (await sandbox.aexecute("echo fine")).output == "fine\n"


async def test_a_connection_that_breaks_in_the_middle_of_a_stream_is_taken_up_again(provider, server, create):
    handle = await create()
    server.faults.add("TaskExecStdioRead", "cut")
    async with await provider.attach(handle) as sandbox:
        for number in range(5):
            assert (await sandbox.aexecute(f"echo {number} >> log; cat log")).output.count("\n") == number + 1
    assert server.counts.taken()["TaskExecStdioRead"].requests >= 3  # the toolbox's installation, and this one twice


@pytest.mark.parametrize("kind", ["lost-before", "lost-after"])
async def test_input_whose_confirmation_was_lost_is_taken_once(provider, server, create, kind):
    async with await provider.attach(await create()) as sandbox:
        server.faults.add("TaskExecStdinWrite", kind, times=2)
        result = await sandbox.aexecute("echo once >> log; cat log")
        assert result.output == "once\n"


async def test_a_large_download_survives_broken_connections(provider, server, create):
    server.faults.add("TaskExecStdioRead", "cut", times=1)
    async with await provider.attach(await create()) as sandbox:
        await sandbox.aexecute("head -c 20000000 /dev/urandom > large")
        expected = (await sandbox.aexecute("sha256sum large")).output.split()[0]
        server.faults.add("TaskExecStdioRead", "cut", times=3)
        for transport in list(server._guard._connections):
            server._loop.call_soon_threadsafe(transport.abort)
        digest = hashlib.sha256()
        async for piece in sandbox.download_stream("large"):
            digest.update(piece)
        assert digest.hexdigest() == expected


async def test_who_is_cut_off_for_good_is_told_and_does_not_hang(provider, server, create):
    async with await provider.attach(await create()) as sandbox:
        waiting = asyncio.create_task(sandbox.aexecute("sleep 600"))
        await until(lambda: "TaskExecStdinWrite" in server.counts.taken(), "the command was sent")
        with server.silent():
            async with asyncio.timeout(90):
                with pytest.raises(SandboxError):
                    await waiting


# -- the end of a sandbox


@pytest.mark.parametrize(
    ("status", "code", "error", "why"),
    [
        (IDLE, 0, SandboxGone, "idle limit"),
        (LATE, 0, SandboxGone, "lifetime is over"),
        (CRASHED, 9, SandboxGone, "killed or failed"),
        (TERMINATED, 0, SandboxNotFound, "terminated"),
    ],
)
async def test_a_sandbox_that_ends_says_why(provider, server, labels, create, status, code, error, why):
    handle = await create()
    async with await provider.attach(handle) as sandbox:
        waiting = asyncio.create_task(sandbox.aexecute("sleep 600"))
        await until(lambda: server.sandbox(handle.id).busy, "the command runs")
        server.end(handle.id, status, code)
        async with asyncio.timeout(60):
            with pytest.raises(SandboxError):
                await waiting
            with pytest.raises(SandboxError):
                await sandbox.als(".")
    for ask in (provider.attach, lambda one: provider.fork(one, 1), provider.snapshot):
        with pytest.raises(error, match=why):
            await ask(handle)
    assert await provider.find(labels) == []
    assert await provider.find_snapshots(labels) == []
    await provider.destroy(handle)


async def test_an_ended_sandbox_is_told_by_a_provider_that_never_met_it(provider, server, create):
    handle = await create()
    server.end(handle.id, LATE)
    other = ModalProvider(IMAGE)
    with pytest.raises(SandboxGone, match="lifetime is over"):
        await other.attach(SandboxHandle.from_json(handle.to_json()))
    await other.aclose()


async def test_destroying_needs_no_answer_the_first_time(provider, server, labels, create):
    handle = await create()
    server.faults.add("SandboxTerminateV2", "lost-after")
    await provider.destroy(handle)
    assert server.sandboxes() == []


# -- forks and snapshots


async def test_a_child_that_cannot_be_made_is_told_and_the_others_are_made(provider, server, labels, create):
    handle = await create()
    server.faults.add("SandboxCreateV2", "quota")
    outcomes = await provider.fork(handle, 3, labels=labels)
    assert sorted(type(one).__name__ for one in outcomes) == ["QuotaExceeded", "SandboxHandle", "SandboxHandle"]
    assert len(server.sandboxes()) == 3


async def test_a_fork_keeps_the_files_once_however_many_children_it_has(provider, server, labels, create):
    handle = await create()
    server.counts.taken()
    await provider.fork(handle, 4, labels=labels)
    counted = server.counts.taken()
    assert counted["TaskSnapshotFilesystem"].requests == 1
    assert counted["SandboxCreateV2"].requests == 4


async def test_a_snapshot_whose_answer_was_lost_is_made_once(provider, server, labels, create):
    handle = await create()
    before = len(server.fleet.images)
    server.faults.add("TaskSnapshotFilesystem", "lost-after")
    snapshot = await provider.snapshot(handle, labels)
    assert len(server.fleet.images) == before + 1
    await provider.delete_snapshot(snapshot)
    assert len(server.fleet.images) == before


async def test_a_snapshot_that_cannot_be_made_leaves_nothing(provider, server, labels, create):
    handle = await create()
    server.faults.add("TaskSnapshotFilesystem", "quota", times=ALWAYS)
    with pytest.raises(QuotaExceeded):
        await provider.snapshot(handle, labels)
    assert await provider.find_snapshots(labels) == []


# -- inside


async def test_a_helper_that_is_killed_is_started_again(provider, create):
    handle = await create()
    async with await provider.attach(handle) as sandbox:
        await sandbox.start(CommandSpec("sleep 600"))
        with pytest.raises(SandboxError):
            await sandbox.aexecute("kill -9 -1; sleep 600")
    async with await provider.attach(handle) as again:
        look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 60[0]'"
        assert (await again.aexecute(f"echo fine; {look}")).output == "fine\n0\n"


async def test_what_the_sandbox_puts_on_its_path_is_never_run_as_root(provider, create):
    handle = await create(env={"PATH": "/workspace/bin:/usr/local/bin:/usr/bin:/bin"})
    names = "sh cat ls head stat find python3 setpriv sleep date mv rm id chown ln mkdir"
    forged = "'#!/bin/sh\\n/usr/bin/id -u >> /tmp/ran\\n'"
    script = f"mkdir bin && for name in {names}; do printf {forged} > bin/$name; chmod 755 bin/$name; done"
    async with await provider.attach(handle) as sandbox:
        assert (await sandbox.aexecute(script)).exit_code == 0
        with pytest.raises(SandboxError):
            await sandbox.aexecute("ls; kill -9 -1; /usr/bin/sleep 600")
    found = SandboxHandle.from_json({**handle.to_json(), "data": {**handle.data, "transport": None}})
    async with await provider.attach(found) as again:
        [ran] = await again.adownload_files(["/tmp/ran"])
        assert set((ran.content or b"").split()) == {b"30000"}  # the command's own `ls`, and nothing of root's
