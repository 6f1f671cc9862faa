"""What goes wrong on Daytona has the right error, leaves nothing behind, and is never paid for twice."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from sandboxes.errors import (
    FanfoldSandboxError,
    ImageNotFound,
    NotAuthenticated,
    ProviderUnavailable,
    QuotaExceeded,
    RateLimited,
    SandboxError,
    SandboxGone,
    SandboxNotFound,
    SandboxTimeout,
)
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.daytona import DaytonaProvider, account, making
from sandboxes.sandbox import CommandSpec
from tests.integration.providers.daytona.conftest import LABELS, box_of, there, until
from tests.wire.daytona.fixtures import provider_of

SPEC = SandboxSpec()
CREATE = "POST /api/sandbox"


# -- the key, and what it may


async def test_a_key_that_is_no_longer_good_is_said_of_every_request(server, provider, handle):
    server.faults.set({"expired": True})
    for request in (provider.create(SPEC), provider.find(), provider.attach(handle), provider.destroy(handle)):
        with pytest.raises(NotAuthenticated, match="DAYTONA_API_KEY"):
            await request
    assert len(there(server)) == 1


async def test_a_missing_key_is_told_with_the_way_to_give_one(monkeypatch):
    monkeypatch.delenv("DAYTONA_API_KEY", raising=False)
    with pytest.raises(NotAuthenticated, match="DAYTONA_API_KEY"):
        await DaytonaProvider().capabilities()


async def test_a_key_that_may_only_look_makes_nothing(server, provider):
    server.faults.set({"forbidden": True})
    with pytest.raises(NotAuthenticated, match="may not make a sandbox"):
        await provider.create(SPEC)
    assert there(server) == []


# -- limits of the account


async def test_an_account_without_room_is_said_to_have_none(server, provider):
    server.faults.set({"quota": True})
    with pytest.raises(QuotaExceeded, match="Total CPU limit exceeded"):
        await provider.create(SPEC)
    assert server.world.created == 0
    assert server.tally.requests(CREATE) == 1


async def test_requests_that_come_too_early_wait_as_long_as_they_are_told(server, provider):
    server.faults.set({"rate_limited": 2, "retry_after": 0.3, "only": CREATE})
    begun = time.monotonic()
    handle = await provider.create(SPEC)
    assert time.monotonic() - begun > 0.6
    assert [one.name for one in there(server)] == [handle.id]


async def test_a_rate_limit_that_holds_for_long_is_told_with_its_delay_at_once(server, provider):
    server.faults.set({"rate_limited": 1000, "retry_after": 120})
    begun = time.monotonic()
    for request in (provider.create(SPEC), provider.find()):
        with pytest.raises(RateLimited) as told:
            await request
        assert told.value.retry_after == 120
    assert time.monotonic() - begun < 5


async def test_a_rate_limit_without_a_delay_is_not_waited_for_when_a_sandbox_is_made(server, provider):
    server.faults.set({"rate_limited": 1000, "only": CREATE})
    with pytest.raises(RateLimited) as told:
        await provider.create(SPEC)
    assert told.value.retry_after is None
    assert there(server) == []


# -- answers that are late or lost


async def test_a_sandbox_whose_answer_was_lost_is_found_again_and_not_paid_for_twice(server, provider):
    server.faults.set({"lost_answers": 1, "only": CREATE})
    handle = await provider.create(SPEC, LABELS)
    assert server.world.created == 1
    async with await provider.attach(handle) as sandbox:
        assert (await sandbox.aexecute("echo fine")).output == "fine\n"


async def test_a_platform_that_was_away_for_a_moment_is_asked_again(server, provider):
    server.faults.set({"unavailable": 2, "only": CREATE})
    handle = await provider.create(SPEC)
    assert [one.name for one in there(server)] == [handle.id]
    server.faults.set({"unavailable": 2, "only": "GET /api/sandbox"})
    assert [one.id for one in await provider.find()] == [handle.id]


@pytest.mark.parametrize("lost", ["files/bulk-upload", "process/execute"])
async def test_a_sandbox_that_cannot_be_booted_is_removed(server, provider, lost, monkeypatch):
    monkeypatch.setattr(account, "PATIENCE", 0.5)
    server.faults.set({"lost_answers": 1000, "only": f"POST /toolbox/{{id}}/{lost}"})
    with pytest.raises(ProviderUnavailable):
        await provider.create(SPEC)
    await until(lambda: there(server) == [], "it is removed")
    assert server.world.created == 1


async def test_a_sandbox_that_never_starts_is_given_up_and_removed(server, provider, monkeypatch):
    monkeypatch.setattr(making, "CREATE_SECONDS", 1.5)
    server.faults.set({"stuck": True})
    with pytest.raises(SandboxTimeout):
        await provider.create(SPEC)
    server.faults.clear()
    await until(lambda: there(server) == [], "it is removed")
    assert server.world.created == 1


async def test_an_image_that_cannot_be_built_is_not_found(server, provider):
    with pytest.raises(ImageNotFound, match="no/such:image"):
        await provider.create(SandboxSpec(image="no/such:image"))
    await until(lambda: there(server) == [], "it is removed")


async def test_slow_answers_are_waited_for(server, provider):
    server.faults.set({"delay": 0.4})
    handle = await provider.create(SPEC)
    async with await provider.attach(handle) as sandbox:
        assert (await sandbox.aexecute("echo fine")).output == "fine\n"


async def test_a_platform_that_nobody_answers_for_is_given_up_within_our_own_deadline(monkeypatch):
    monkeypatch.setattr(account, "PATIENCE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    lost = DaytonaProvider(api_key="dtn_x", api_url=f"http://127.0.0.1:{port}/api", target="us")
    begun = time.monotonic()
    for request in (lost.find(), lost.create(SPEC)):
        with pytest.raises(ProviderUnavailable, match="DAYTONA_API_URL"):
            await request
    assert time.monotonic() - begun < 20
    await lost.aclose()


# -- the stream


async def test_a_stream_that_breaks_fails_its_calls_and_loses_no_command(server, provider, handle):
    sandbox = await provider.attach(handle)
    command = await sandbox.start(CommandSpec("echo once >> ledger; head -c 3000000 /dev/zero; echo >&2 end"), call_id="c1")
    server.faults.set({"cut_stream_after": 200_000})
    with pytest.raises(SandboxGone):
        async for _ in command.output():
            pass
    await sandbox.aclose()
    async with await provider.attach(handle) as again:
        found = await again.command("c1")
        assert found is not None
        assert (await found.wait()).exit_code == 0
        assert (await again.aexecute("cat ledger")).output == "once\n"


async def test_what_is_sent_faster_than_it_is_taken_does_not_end_the_stream(server, provider, handle):
    """The platform cuts off who lets 256 pieces come up; ours are never so far ahead."""
    async with await provider.attach(handle) as sandbox:
        await sandbox.aexecute("head -c 6000000 /dev/urandom > big")
        server.faults.set({"stream_rate": 3_000_000})
        assert sum([len(piece) async for piece in sandbox.download_stream("big")]) == 6_000_000


async def test_a_client_that_leaves_leaves_no_bridge_behind(server, provider, handle):
    for _ in range(3):
        async with await provider.attach(handle) as sandbox:
            await sandbox.als(".")
    await until(lambda: box_of(server, handle).terminals == {}, "the terminals are gone")


# -- ended from outside


@pytest.mark.parametrize(("how", "expected"), [("stop", SandboxGone), ("destroy", SandboxNotFound)])
async def test_a_sandbox_that_is_ended_from_outside_is_told_as_that(server, provider, handle, how, expected):
    sandbox = await provider.attach(handle)
    waiting = asyncio.create_task(sandbox.aexecute("sleep 600"))
    await sandbox.als(".")
    box = box_of(server, handle)
    loop = server.loop
    asyncio.run_coroutine_threadsafe(getattr(server.world, how)(box), loop).result(10)
    with pytest.raises(SandboxError):
        await waiting
    await sandbox.aclose()
    with pytest.raises(expected):
        await provider.attach(handle)
    await provider.destroy(handle)
    await until(lambda: there(server) == [], "it is gone")


async def test_a_sandbox_that_the_platform_stops_for_idleness_is_gone_and_still_found(server, provider, handle):
    box_of(server, handle).told["autoStopInterval"] = 1
    server.faults.set({"minute": 0.2})
    await until(lambda: box_of(server, handle).state == "stopped", "the platform stops it")
    server.faults.clear()
    with pytest.raises(SandboxGone, match="idle"):
        await provider.attach(handle)
    assert [one.id for one in await provider.find(LABELS)] == [handle.id]


async def test_a_sandbox_that_everybody_forgot_is_removed_by_the_platform_after_its_lifetime(server, provider):
    handle = await provider.create(SandboxSpec(lifetime=60))
    assert box_of(server, handle).told["ttlMinutes"] == 6
    server.faults.set({"minute": 0.02})
    await until(lambda: there(server) == [], "the platform removes it")
    with pytest.raises(SandboxNotFound):
        await provider.attach(handle)


# -- forks and snapshots


async def test_where_the_platform_neither_forks_nor_keeps_the_workspace_is_copied(server, provider, handle):
    async with await provider.attach(handle) as sandbox:
        await sandbox.awrite("file", "it")
    server.faults.set({"no_snapshots": True})
    [child] = await provider.fork(handle, 1, labels=LABELS)
    async with await provider.attach(child) as sandbox:
        assert (await sandbox.aexecute("cat file")).output == "it"
    snapshot = await provider.snapshot(handle, {"kept": "so"})
    assert [one.id for one in await provider.find_snapshots({"kept": "so"})] == [snapshot.id]


async def test_children_that_there_is_no_room_for_are_told_one_by_one(server, provider, handle):
    server.faults.set({"quota": True})
    made = await provider.fork(handle, 3)
    assert [type(one) for one in made] == [QuotaExceeded] * 3
    assert [one.name for one in there(server)] == [handle.id]
    assert server.world.kept == {}


async def test_labels_that_are_too_long_for_a_snapshots_name_are_kept_all_the_same(server, provider, handle):
    labels = {f"label-{number}": f"value-{number * 7919}" for number in range(60)}
    snapshot = await provider.snapshot(handle, labels)
    [found] = await provider.find_snapshots(labels)
    assert (found.id, dict(found.labels)["label-7"]) == (snapshot.id, labels["label-7"])


async def test_a_create_that_is_cancelled_at_any_moment_leaves_nothing(server, provider):
    for moment in (0.0, 0.02, 0.05, 0.1, 0.15):
        task = asyncio.create_task(provider.create(SPEC))
        await asyncio.wait([task], timeout=moment)
        task.cancel()
        [made] = await asyncio.gather(task, return_exceptions=True)
        if not isinstance(made, BaseException):
            await provider.destroy(made)
    await until(lambda: there(server) == [], "nothing is left")


async def test_every_error_is_one_of_ours(server, handle, monkeypatch):
    stranger = provider_of(server)()  # who has made a sandbox need not ask for it before attaching
    monkeypatch.setattr(account, "PATIENCE", 0.3)
    for fault in ({"unavailable": 10**6}, {"lost_answers": 10**6}, {"rate_limited": 10**6}):
        server.faults.clear()
        server.faults.set(fault)
        for request in (
            stranger.create(SPEC),
            stranger.attach(handle),
            stranger.find(),
            stranger.fork(handle, 2),
            stranger.snapshot(handle),
            stranger.find_snapshots(),
            stranger.destroy(handle),
        ):
            with pytest.raises(FanfoldSandboxError):
                await request
    await stranger.aclose()
