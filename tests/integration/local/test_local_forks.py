"""Forks of local sandboxes: what is particular to layers of this machine. The rest is the conformance kit's."""

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxes.errors import InvalidSpec, SandboxError, Unsupported
from sandboxes.portal import portal
from sandboxes.providers.base import Mount, Resources, SandboxHandle, SandboxSpec
from sandboxes.providers.local import LocalProvider
from sandboxes.providers.local import provider as local


@pytest.fixture
async def provider(tmp_path):
    made = LocalProvider(tmp_path)
    yield made
    for handle in await made.find():
        await made.destroy(handle)
    for snapshot in await made.find_snapshots():
        await made.delete_snapshot(snapshot)
    assert not made._sandboxes.exists()


async def told(provider, handle, command):
    async with await provider.attach(handle) as sandbox:
        done = await sandbox.aexecute(command)
    assert done.exit_code == 0, done.output
    return done.output


async def test_more_layers_than_a_mount_can_take_are_made_one(provider, monkeypatch):
    monkeypatch.setattr(local, "LOWERS_CAP", 3 * len(str(provider._sandboxes / "sbx-0123456789abcdef" / "upper")))
    handle = await provider.create(SandboxSpec())
    for level in range(6):
        await told(provider, handle, f"echo {level} > {level}; rm -f -- {level - 2}")
        [handle] = await provider.fork(handle, 1)
    assert await told(provider, handle, "cat *") == "4\n5\n"
    assert len(provider._layers.below(handle.id).workspace) < 3


async def test_a_parent_with_paths_of_this_machine_has_to_be_told_again(provider, tmp_path):
    source = Path("/var/tmp") / f"fanfold-mount-{os.getpid()}"
    source.mkdir()
    try:
        spec = SandboxSpec(mounts=(Mount(target="/data", source=str(source)),))
        handle = await provider.create(spec)
        with pytest.raises(InvalidSpec, match="mounts"):
            await provider.fork(handle, 1)
        [child] = await provider.fork(handle, 1, spec=spec)
        assert await told(provider, child, "ls -d /data") == "/data\n"
    finally:
        shutil.rmtree(source)


async def test_a_system_cannot_be_forked_where_files_are_in_memory(provider):
    handle = await provider.create(SandboxSpec(system="overlay", resources=Resources(disk="16MiB")))
    with pytest.raises(Unsupported, match="memory"):
        await provider.fork(handle, 1, scope="filesystem")


async def test_a_child_that_does_not_start_spares_its_siblings(provider, monkeypatch):
    """The third child finds something where its folder has to be; the others are made."""
    handle = await provider.create(SandboxSpec())
    taken = "sbx-" + "0" * 16
    ids = iter(["sbx-" + "1" * 16, "sbx-" + "2" * 16, taken])
    monkeypatch.setattr(local, "new_sandbox_id", lambda: next(ids))
    (provider._sandboxes / taken / "something").mkdir(parents=True)
    made = await provider.fork(handle, 3)
    assert [type(one) for one in made] == [SandboxHandle, SandboxHandle, SandboxError]
    for child in made[:2]:
        assert await told(provider, child, "echo fine") == "fine\n"


async def test_forks_and_ends_at_the_same_time_leave_nothing(provider):
    """Whoever forks, resumes or destroys at once with others gets a result or an error of ours; nothing stays."""
    chance = random.Random(5)
    roots = [await provider.create(SandboxSpec()) for _ in range(2)]

    async def live(handle, depth):
        for _ in range(2):
            children = await provider.fork(handle, 2)
            grown = [live(one, depth - 1) for one in children if isinstance(one, SandboxHandle) and depth]
            ending = [provider.destroy(one) for one in children if isinstance(one, SandboxHandle) and chance.random() < 0.5]
            await asyncio.gather(*grown, *ending, provider.resume(handle), return_exceptions=True)

    lives = [live(root, depth) for root in roots for depth in (0, 1)]
    outcomes = await asyncio.gather(*lives, return_exceptions=True)
    assert all(one is None or isinstance(one, SandboxError) for one in outcomes), outcomes
    await asyncio.gather(*(provider.destroy(one) for one in await provider.find()))


EDITS = st.lists(
    st.sampled_from(
        ["rm -rf a", "mkdir -p a", "mkdir -p a/b", "touch a/x", "rm -rf a/b", "ln -sfn b l", "rm -rf l", "mkdir -p l",
         "echo 1 >> f", "rm -rf f", "mkdir -p f/g", "mv a c", "rm -rf c", "cp -r a c", "chmod 700 a", "rm -rf b; mkdir b",
         "ln f hard", "mv f a", "rm -rf hard", "echo 2 > a/b/y", "mkdir -p c/b/y"],
    ),
    max_size=6,
)  # fmt: skip
LOOK = "find . -printf '%P %y %m %l\\n' | LC_ALL=C sort; find . -type f -exec md5sum {} + | LC_ALL=C sort"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(EDITS, min_size=2, max_size=5))
def test_a_chain_of_forks_is_what_one_sandbox_would_be(tmp_path, steps):
    """Any edits, each in a fork of the one before, and a snapshot of the last: the same files as when one folder took all."""

    async def chain():
        provider = LocalProvider(tmp_path)
        plain = handle = None
        snapshot = None
        try:
            plain = await provider.create(SandboxSpec())
            handle = await provider.create(SandboxSpec())
            for edits in steps:
                script = "; ".join([*edits, "true"])
                for one in (plain, handle):
                    async with await provider.attach(one) as sandbox:
                        await sandbox.aexecute(script)
                [handle] = await provider.fork(handle, 1)
            snapshot = await provider.snapshot(handle)
            kept = await provider.create(SandboxSpec(), from_snapshot=snapshot)
            return [await told(provider, one, LOOK) for one in (plain, handle, kept)]
        finally:
            for one in await provider.find():
                await provider.destroy(one)
            for one in await provider.find_snapshots():
                await provider.delete_snapshot(one)

    plain, forked, kept = portal.run(chain())
    assert forked == plain
    assert kept == plain
