"""The docker provider passes the conformance kit with an image that has no Python: plain exec and `sh`."""

import asyncio
import functools

import pytest

from sandboxes.providers.docker import DockerProvider
from sandboxes.testing.conformance import ProviderConformance
from sandboxes.testing.conformance.limits import FORK_BOMB, PIDS


@pytest.fixture(scope="module")
def provider_factory():
    return functools.partial(DockerProvider, default_image="fanfold-test/nopython:latest", pull="never")


@pytest.mark.docker
class TestDockerWithoutPython(ProviderConformance):
    gaps = {
        "test_no_more_processes_can_be_started_than_allowed": "plain exec takes a dozen processes for each command: when the "
        "orphans of one that ended take nearly all of 64, no other can be started",
    }

    async def test_a_fork_bomb_is_contained(self, provider, fresh):
        """At its limit of processes such a sandbox may be silent (see docs/providers.md); others answer; it can be ended."""
        made, witness = await fresh(resources={"pids": PIDS}), await fresh()
        bomb = asyncio.create_task(made.sandbox.aexecute(FORK_BOMB, timeout=600))
        async with asyncio.timeout(120):
            assert (await witness.sandbox.aexecute("echo fine")).output == "fine\n"
            await provider.destroy(made.handle)
            await asyncio.gather(bomb, return_exceptions=True)
            assert (await witness.sandbox.aexecute("echo fine")).output == "fine\n"
