"""The line on which whoever has made a sandbox is its helper's first client."""

import socket

import pytest

from sandboxes.errors import SandboxGone
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.docker import DockerProvider
from sandboxes.providers.docker.stream import Demultiplexer
from sandboxes.toolbox.client import connect
from sandboxes.toolbox.helper import wire
from tests.integration.docker.conftest import BASE

pytestmark = pytest.mark.docker


async def test_the_first_client_needs_no_further_process_and_others_come_after_it(provider, create, api):
    handle = await create()
    async with await provider.attach(handle) as first:
        assert (await first.aexecute("cat; echo first")).output == "first\n", "no command has the client's line as its stdin"
        assert api.inspect_container(handle.id)["ExecIDs"] is None
        async with await provider.attach(handle) as second:
            assert (await second.aexecute("echo second")).output == "second\n"
    async with await provider.attach(handle) as third:
        assert (await third.aexecute("echo third")).output == "third\n"


async def test_a_first_client_whose_line_broke_gets_another(provider, create):
    handle = await create()
    provider._maker.lines._lines[handle.id].shutdown(socket.SHUT_RDWR)
    async with await provider.attach(handle) as sandbox:
        assert (await sandbox.aexecute("echo there")).output == "there\n"


async def test_a_first_client_hears_that_it_was_dropped(provider, create):
    line = provider._maker.lines.take((await create()).id)
    client = await connect(line, deadline=10, unwrap=Demultiplexer(ends_by_stderr=True).stdout)
    client._link.send([b"\xff" * 64])
    with pytest.raises(SandboxGone, match="closed the connection"):
        await client.call("hello", protocol=wire.PROTOCOL)
    await client.aclose()


async def test_lines_that_nobody_took_are_closed():
    provider = DockerProvider(BASE, pull="never")
    handles = [await provider.create(SandboxSpec()) for _ in range(2)]
    lines = list(provider._maker.lines._lines.values())
    await provider.destroy(handles[0])
    assert [line.fileno() < 0 for line in lines] == [True, False]
    await provider.destroy(handles[1])
    await provider.aclose()
    assert [line.fileno() < 0 for line in lines] == [True, True]
