"""How many requests each thing takes on Modal: a number that is not to grow unseen. See benchmarks/clouds.py for the bytes."""

import asyncio
from collections import Counter

import pytest

from benchmarks.clouds_operations import check, files, furniture, operations
from sandboxes.providers.modal import ModalProvider
from tests.wire.modal.fixtures import IMAGE

pytestmark = pytest.mark.docker
FOLDER = "/workspace/bench"
EACH_ONE = {operation.what: 1 for operation in operations(FOLDER, 0)}
LONG = {"upload 10 MB": 12, "download 10 MB": 8}
"""A begin, ten pieces, and an end, as a rule in 5 requests; on a slow machine less goes together."""


def requests(server):
    """Those since the last look, by RPC."""
    return Counter({rpc: count.requests for rpc, count in server.counts.taken().items() if count.requests})


@pytest.fixture
async def attached(server, create, provider):
    async with await provider.attach(await create()) as sandbox:
        assert (await sandbox.aexecute(furniture(FOLDER))).exit_code == 0
        for one in await sandbox.aupload_files(files(FOLDER)):
            assert one.error is None
        requests(server)
        yield sandbox


async def test_the_first_sandbox_takes_four_requests_more_than_any_other(server, provider, create):
    made = {"SandboxCreateV2": 1, "TaskExecStart": 1, "TaskExecStdinWrite": 1, "TaskExecStdioRead": 1}
    let_in = {"AppGetOrCreate": 1, "EnvironmentGetOrCreate": 1, "ImageGetOrCreate": 1, "AuthTokenGet": 1}
    await create()
    first = requests(server)
    first["EnvironmentGetOrCreate"] = 1  # the SDK asks for it once in a process
    assert first == made | let_in
    await create()
    assert requests(server) == made


async def test_attaching_with_the_first_command_takes_four_and_every_later_one_takes_one(server, provider, create):
    handle = await create()
    requests(server)
    async with await provider.attach(handle) as sandbox:
        await sandbox.aexecute("true")
        assert requests(server) == {"TaskExecStart": 1, "TaskExecStdioRead": 1, "TaskExecStdinWrite": 2}
        await sandbox.aexecute("true")
        assert requests(server) == {"TaskExecStdinWrite": 1}
    assert requests(server) == {"TaskExecStdinWrite": 1}  # the goodbye


async def test_an_end_takes_three(server, provider, create):
    handle = await create()
    requests(server)
    await provider.destroy(handle)
    assert requests(server) == {"SandboxGetFromNameV2": 1, "SandboxTerminateV2": 1, "SandboxWaitV2": 1}


async def test_whoever_else_attaches_looks_it_up_and_asks_for_the_way_there(server, create):
    handle = await create()
    requests(server)
    other = ModalProvider(IMAGE)
    async with await other.attach(handle):
        pass
    await other.aclose()
    once = ("AppGetOrCreate", "AuthTokenGet", "SandboxGetFromNameV2", "SandboxGetTaskIdV2", "SandboxGetCommandRouterAccess")
    attached = {"TaskExecStart": 1, "TaskExecStdioRead": 1, "TaskExecStdinWrite": 2}
    assert requests(server) == dict.fromkeys(once, 1) | attached


async def test_each_operation_takes_one_request_and_no_other(server, attached):
    taken = {}
    for operation in operations(FOLDER, 1):
        check(operation, await getattr(attached, f"a{operation.method}")(*operation.arguments))
        asked = requests(server)
        assert set(asked) == {"TaskExecStdinWrite"}
        taken[operation.what] = asked.total()
    most = EACH_ONE | LONG
    assert {what: count for what, count in taken.items() if count > most[what]} == {}


async def test_what_is_asked_at_once_goes_together(server, attached):
    await asyncio.gather(*(attached.aread(f"{FOLDER}/part1/file1.py") for _ in range(40)))
    assert requests(server).total() <= 3


async def test_forks_are_one_image_and_four_requests_each(server, provider, create):
    handle = await create()
    requests(server)
    for child in await provider.fork(handle, 3):
        await provider.destroy(child)
    asked = requests(server)
    assert (asked["TaskSnapshotFilesystem"], asked["SandboxCreateV2"], asked["TaskExecStart"]) == (1, 3, 3)
