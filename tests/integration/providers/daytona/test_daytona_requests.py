"""What is asked of the platform: what a request holds, and how many there are."""

from __future__ import annotations

import pytest

from benchmarks.clouds_operations import check, files, furniture, operations
from sandboxes.errors import SandboxNotFound, Unsupported
from sandboxes.providers.base import SandboxSpec
from sandboxes.sandbox import CommandSpec
from tests.integration.providers.daytona.conftest import LABELS, box_of
from tests.wire.daytona.fixtures import provider_of

TERMINAL = "WS /toolbox/{id}/process/pty/create-connect"
FOLDER = "/workspace/bench"
MANY = {
    "read 1 MB": 18,
    "execute, 90 KB of output": 3,
    "execute, 2 MB of output": 3,
    "upload 100 x 1 KB": 5,
    "download 100 x 1 KB": 4,
    "upload 10 MB": 330,
    "download 10 MB": 170,
}
"""The messages of what is long, at most."""


async def test_a_sandbox_takes_three_requests_its_terminal_one_and_its_end_two(server, provider):
    handle = await provider.create(SandboxSpec())
    assert server.tally.requests() == 3
    server.tally.clear()
    async with await provider.attach(handle):
        assert server.tally.requests() == 1
    await provider.destroy(handle)
    assert server.tally.requests() == 3  # one of them to see whether a fork was cut off, and has left something


async def test_whoever_has_not_made_it_looks_at_it_first(server, handle):
    other = provider_of(server)()
    server.tally.clear()
    async with await other.attach(handle):
        assert server.tally.requests() == 2
    async with await other.attach(handle):
        assert server.tally.requests() == 3
    await other.aclose()


async def test_what_has_ended_since_it_was_made_is_told_by_whoever_attaches(server, provider):
    handle = await provider.create(SandboxSpec())
    other = provider_of(server)()
    await other.destroy(handle)
    await other.aclose()
    with pytest.raises(SandboxNotFound, match="destroyed"):
        await provider.attach(handle)
    await provider.destroy(handle)


async def test_no_operation_takes_a_request_and_a_short_one_is_one_message(server, provider, handle):
    async with await provider.attach(handle) as sandbox:
        await sandbox.aexecute(furniture(FOLDER))
        await sandbox.aupload_files(files(FOLDER))
        sent = {}
        for operation in operations(FOLDER, 1):
            server.tally.clear()
            check(operation, await getattr(sandbox, f"a{operation.method}")(*operation.arguments))
            assert server.tally.requests() == 0
            sent[operation.what] = server.tally.told()[TERMINAL]["messages"]
    # Beyond one: a message has 32 KiB at most, and 64 KiB that come are acknowledged.
    most = {operation.what: 2 for operation in operations(FOLDER, 1)} | MANY
    assert {what: count for what, count in sent.items() if count > most[what]} == {}


async def test_a_command_on_the_stream_takes_no_request_and_one_message(server, provider, handle):
    async with await provider.attach(handle) as sandbox:
        await sandbox.aexecute("true")
        server.tally.clear()
        for number in range(10):
            assert (await sandbox.aexecute(f"echo {number}")).output == f"{number}\n"
        told = server.tally.told()
    assert list(told) == [TERMINAL]
    assert (told[TERMINAL]["requests"], told[TERMINAL]["messages"]) == (0, 10)


async def test_a_command_that_runs_long_is_waited_for_without_asking(server, provider, handle):
    async with await provider.attach(handle) as sandbox:
        server.tally.clear()
        await sandbox.aexecute("sleep 1.5")
        assert server.tally.told()[TERMINAL]["messages"] == 1


async def test_without_python_a_short_command_takes_one_request(server):
    provider = provider_of(server, "fanfold-test/nopython:latest")()
    handle = await provider.create(SandboxSpec())
    async with await provider.attach(handle) as sandbox:
        server.tally.clear()
        for number in range(5):
            assert (await sandbox.aexecute(f"echo {number}")).output == f"{number}\n"
        assert server.tally.requests() == 5
    await provider.destroy(handle)
    await provider.aclose()


async def test_limits_and_the_network_are_asked_for_in_the_platforms_words(server, provider):
    spec = SandboxSpec(
        image="python:3.12-slim",
        resources={"cpu": 2, "memory": "2GiB", "disk": "5GiB"},
        network="allowlist",
        allowed_hosts=("example.org", "*.example.com", "10.0.0.0/8"),
        lifetime=600,
    )
    box = box_of(server, await provider.create(spec, LABELS))
    assert (box.kind.cpu, box.kind.memory, box.told["disk"]) == (2, 2, 5)
    assert (box.told["networkAllowList"], box.told["domainAllowList"]) == ("10.0.0.0/8", "example.org,*.example.com")
    assert (box.told["ttlMinutes"], box.told["autoStopInterval"], box.told["autoDeleteInterval"]) == (15, 15, 60)
    assert LABELS.items() <= box.labels.items()


async def test_without_a_network_everything_is_blocked(server, provider, handle):
    assert box_of(server, handle).told["networkBlockAll"] is True


@pytest.mark.parametrize("resources", [{"cpu": 1.5}, {"memory": "1500MiB"}, {"disk": "100MB"}], ids=str)
async def test_limits_that_the_platform_cannot_count_are_refused(server, provider, resources):
    with pytest.raises(Unsupported, match="whole cores and GiB"):
        await provider.create(SandboxSpec(image="python:3.12-slim", resources=resources))
    assert server.tally.requests() == 0


async def test_a_snapshot_of_the_account_has_limits_of_its_own(provider):
    with pytest.raises(Unsupported, match="a snapshot has its own"):
        await provider.create(SandboxSpec(image="snapshot:ours", resources={"cpu": 1}))


async def test_no_secret_is_given_to_the_platform(server, provider):
    handle = await provider.create(SandboxSpec(env={"TOKEN": "s3cret-value"}), LABELS)
    box = box_of(server, handle)
    assert "s3cret" not in f"{box.env} {box.labels} {box.told}"
    async with await provider.attach(handle) as sandbox:
        assert (await sandbox.aexecute('grep -rl "$TOKEN" /tmp /home 2>/dev/null')).output == ""
        assert (await sandbox.aexecute("echo $TOKEN")).output == "s3cret-value\n"


async def test_a_timeout_kills_the_processes_of_a_command_on_the_platform_too(server, provider, handle):
    async with await provider.attach(handle) as sandbox:
        command = await sandbox.start(CommandSpec("setsid sleep 4242 & sleep 4242", timeout=1))
        assert (await command.wait()).timed_out
        assert (await sandbox.aexecute("cat /proc/[0-9]*/comm | grep -c '^sleep$'")).output == "0\n"
