"""Who forks, or keeps a snapshot, and is killed in the middle leaves nothing on modal that does not end by itself."""

import json
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from sandboxes.providers.modal import provider as modal_provider
from sandboxes.providers.modal import snapshots
from tests.integration.modal.conftest import IMAGE, until
from tests.wire.modal.faults import ALWAYS

pytestmark = pytest.mark.docker
WORK = """
import asyncio, json, sys
from sandboxes.providers.base import SandboxHandle
from sandboxes.providers.modal import ModalProvider

image, what, handle, labels = sys.argv[1:]
provider, parent = ModalProvider(image), SandboxHandle.from_json(json.loads(handle))
work = {"fork": lambda: provider.fork(parent, 2, labels=json.loads(labels)), "snapshot": lambda: provider.snapshot(parent)}
asyncio.run(work[what]())
"""


@contextmanager
def working(what, handle, labels):
    """A process that does this with a sandbox, and is killed at the end."""
    arguments = [IMAGE, what, json.dumps(handle.to_json()), json.dumps(labels)]
    with subprocess.Popen([sys.executable, "-c", WORK, *arguments]) as process:
        try:
            yield
        finally:
            process.kill()


def copies(server):
    """The images that are copies of sandboxes, each with the seconds after which the platform removes it."""
    ends = [server.fleet.images[image_id].expires_at for image_id in server.fleet._copies.values()]
    return [end and end - time.time() for end in ends]


async def test_the_image_of_a_killed_fork_ends_by_itself_and_its_children_are_found(server, provider, create, labels):
    parent = await create(lifetime=300)
    server.faults.add("SandboxCreateV2", "slow", times=ALWAYS, seconds=3600)
    with working("fork", parent, labels):
        await until(lambda: copies(server), "the image is there")
    [seconds] = copies(server)
    assert 0 < seconds <= 300 + modal_provider.FORK_KEPT_SECONDS
    assert [one.id for one in await provider.find(labels)] == [parent.id]


async def test_the_image_of_a_killed_snapshot_ends_by_itself_and_its_record_is_found(server, provider, create, labels):
    parent = await create()
    before = len(copies(server))
    server.faults.add("DictUpdate", "slow", times=ALWAYS, seconds=0.5)
    with working("snapshot", parent, labels):
        await until(lambda: len(copies(server)) > before, "the image is there")
    assert 0 < copies(server)[-1] <= snapshots.KEPT_SECONDS
    for left in await provider.find_snapshots():
        await provider.delete_snapshot(left)
    assert await provider.find_snapshots() == []
