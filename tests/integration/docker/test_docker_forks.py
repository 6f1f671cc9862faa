"""Forks of Docker sandboxes: what is particular to volumes and images. The rest is the conformance kit's."""

import asyncio
import json
import random

import pytest

from sandboxes.errors import SandboxError
from sandboxes.providers.base import Resources, SandboxHandle, SandboxSpec
from sandboxes.providers.docker import DockerProvider, images, layers, layout
from tests.integration.docker.conftest import BASE, tidied

pytestmark = pytest.mark.docker


class Elsewhere(DockerProvider):
    """What the provider does with an engine whose volumes cannot be layers."""

    def _stacks(self, info):
        return False


@pytest.fixture
async def elsewhere(labels):
    made = Elsewhere(BASE, pull="never")
    yield made
    await tidied(made, labels)


async def told(provider, handle, command):
    async with await provider.attach(handle) as sandbox:
        done = await sandbox.aexecute(command)
    assert done.exit_code == 0, done.output
    return done.output


async def test_the_image_of_a_fork_hands_no_secret_and_no_label_on(provider, labels, api):
    spec = SandboxSpec(system="overlay", env={"TOKEN": "s3cret-value", "PATH": "/own/bin:/usr/bin:/bin"})
    parent = await provider.create(spec, {**labels, "role": "parent"})
    [child] = await provider.fork(parent, 1, labels={**labels, "role": "child"}, scope="filesystem")
    image = api.inspect_container(child.id)["Config"]["Image"]
    assert image.startswith(layout.FORK_IMAGES)
    given = json.dumps(api.inspect_image(image)["Config"])
    assert "s3cret-value" not in given
    assert "/own/bin" not in given
    assert "s3cret-value" not in json.dumps(api.inspect_container(child.id))
    assert [one.id for one in await provider.find({**labels, "role": "parent"})] == [parent.id]
    [found] = await provider.find({**labels, "role": "child"})
    assert dict(found.labels) == {**labels, "role": "child"}


async def test_an_image_goes_with_the_last_sandbox_that_needs_it(provider, labels, api):
    parent = await provider.create(SandboxSpec(system="overlay"), labels)
    await told(provider, parent, "echo system > /usr/local/kit")
    [child] = await provider.fork(parent, 1, labels=labels, scope="filesystem")
    [grandchild] = await provider.fork(child, 1, labels=labels)
    image = api.inspect_container(child.id)["Config"]["Image"]
    await provider.destroy(parent)
    await provider.destroy(child)
    assert await told(provider, grandchild, "cat /usr/local/kit") == "system\n"
    await provider.destroy(grandchild)
    assert api.images(image) == []


async def test_an_image_that_no_child_was_made_of_goes_with_the_parent(provider, labels, api):
    """Whoever forks may be killed between the two."""
    parent = await provider.create(SandboxSpec(system="overlay"), labels)
    image = images.of_files(api, parent.id)
    await provider.destroy(parent)
    assert api.images(image) == []


async def test_more_layers_than_a_mount_can_take_are_made_one(provider, labels, monkeypatch):
    monkeypatch.setattr(layers, "FOLDERS_CAP", 250)
    handle = await provider.create(SandboxSpec(), labels)
    for level in range(5):
        await told(provider, handle, f"echo {level} > {level}; rm -f -- {level - 2}")
        [handle] = await provider.fork(handle, 1, labels=labels)
    assert await told(provider, handle, "cat *") == "3\n4\n"


async def test_children_of_another_user_own_their_files(provider, labels):
    parent = await provider.create(SandboxSpec(user="1234:1234"), labels)
    await told(provider, parent, "echo it > file")
    [child] = await provider.fork(parent, 1, spec=SandboxSpec(user="2345:2345"), labels=labels)
    assert await told(provider, child, "cat file; echo more >> file; stat -c %u file") == "it\n2345\n"
    snapshot = await provider.snapshot(parent, labels)
    made = await provider.create(SandboxSpec(user="2345:2345"), labels, from_snapshot=snapshot)
    assert await told(provider, made, "cat file; echo more >> file; stat -c %u file") == "it\n2345\n"


async def test_an_engine_elsewhere_forks_and_keeps_by_copying(elsewhere, labels):
    capabilities = await elsewhere.capabilities()
    assert (capabilities.native_fork, capabilities.fork_pauses) == (False, False)
    parent = await elsewhere.create(SandboxSpec(system="overlay"), labels)
    await told(elsewhere, parent, "echo it > file; echo system > /usr/local/kit")
    children = await elsewhere.fork(parent, 2, labels=labels, scope="filesystem")
    for child in children:
        assert await told(elsewhere, child, "cat file /usr/local/kit") == "it\nsystem\n"
    snapshot = await elsewhere.snapshot(parent, labels)
    assert [one.id for one in await elsewhere.find_snapshots(labels)] == [snapshot.id]
    await told(elsewhere, parent, "rm file")
    spec = SandboxSpec(resources=Resources(disk="16MiB"))
    assert await told(elsewhere, await elsewhere.create(spec, labels, from_snapshot=snapshot), "cat file") == "it\n"


async def test_what_is_left_when_only_volumes_are_is_found_and_destroyed(provider, labels, api):
    parent = await provider.create(SandboxSpec(), labels)
    [child] = await provider.fork(parent, 1, labels=labels)
    for handle in (parent, child):
        api.remove_container(handle.id, force=True)
    found = {one.id for one in await provider.find(labels)}
    assert child.id in found
    await provider.destroy(child)
    assert [one.id for one in await provider.find(labels)] == [parent.id]
    await provider.destroy(parent)
    assert await provider.find(labels) == []
    assert not [one for one in api.volumes()["Volumes"] if parent.id in one["Name"] or child.id in one["Name"]]


async def test_forks_and_ends_at_the_same_time_leave_nothing(provider, labels, api):
    """Whoever forks, resumes or destroys at once with others gets a result or an error of ours; nothing stays."""
    chance = random.Random(7)
    roots = [await provider.create(SandboxSpec(), labels) for _ in range(2)]
    seen = {root.id for root in roots}

    async def live(handle, depth):
        children = [one for one in await provider.fork(handle, 2, labels=labels) if isinstance(one, SandboxHandle)]
        seen.update(one.id for one in children)
        grown = [live(one, depth - 1) for one in children if depth]
        ending = [provider.destroy(one) for one in children if chance.random() < 0.5]
        await asyncio.gather(*grown, *ending, provider.resume(handle), return_exceptions=True)

    outcomes = await asyncio.gather(*(live(root, depth) for root in roots for depth in (0, 1)), return_exceptions=True)
    assert all(one is None or isinstance(one, SandboxError) for one in outcomes), outcomes
    while left := await provider.find(labels):
        await asyncio.gather(*(provider.destroy(one) for one in left))
    assert not [one["Name"] for one in api.volumes()["Volumes"] if any(id_ in one["Name"] for id_ in seen)]
