"""A sandbox that is made by the first call."""

import asyncio

import pytest

from orchestrator.worker.deferred import DeferredSandbox
from sandboxes.errors import SandboxGone
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.local import LocalProvider
from sandboxes.sandbox import Applied, Changed, CommandSpec, Edit


@pytest.fixture
def provider(tmp_path):
    return LocalProvider(tmp_path)


def deferring(provider, made):
    async def make():
        made.append(await provider.create(SandboxSpec()))
        return await provider.attach(made[-1])

    return DeferredSandbox(SandboxSpec().workdir, make)


async def end(provider, deferred, made):
    await deferred.aclose()
    for handle in made:
        await provider.destroy(handle)
    await provider.aclose()


async def test_nothing_is_made_until_something_is_asked_of_it(provider):
    made = []
    deferred = deferring(provider, made)
    assert deferred.workdir == SandboxSpec().workdir
    assert (deferred.begun, deferred.id, made) == (False, "", [])
    await end(provider, deferred, made)


async def test_calls_at_once_share_one_sandbox(provider):
    made = []
    deferred = deferring(provider, made)
    try:
        one, other = await asyncio.gather(deferred.awrite("a", "text\n"), deferred.aexecute("echo said"))
        assert (one.error, other.output.strip(), len(made)) == (None, "said", 1)
        assert deferred.begun
        assert deferred.id == made[0].id
    finally:
        await end(provider, deferred, made)


async def test_every_call_is_passed_on(provider):
    made = []
    deferred = deferring(provider, made)

    async def pieces():
        yield b"NEEDLE\n"

    try:
        await deferred.upload_stream(f"{deferred.workdir}/a", pieces())
        assert [piece async for piece in deferred.download_stream(f"{deferred.workdir}/a")] == [b"NEEDLE\n"]
        assert (await deferred.aedit("a", "NEEDLE", "PIN")).error is None
        assert (await deferred.aread("a")).content == "PIN\n"
        assert len((await deferred.agrep("PIN", deferred.workdir)).matches or []) == 1
        assert len((await deferred.aglob("*", deferred.workdir)).matches or []) == 1
        assert len((await deferred.als(deferred.workdir)).entries or []) == 1
        assert [entry.path for entry in await deferred.manifest(deferred.workdir)] == ["a"]
        base = {entry.path: entry for entry in await deferred.manifest(deferred.workdir)}
        assert await deferred.changes(deferred.workdir, base) == Changed()
        removal = Edit("a", base["a"], None)
        assert await deferred.apply(deferred.workdir, [removal], dict[str, bytes]().__getitem__, call_id="apply") == Applied()
        assert await deferred.changes(deferred.workdir, base) == Changed(removed=("a",))
        assert (await deferred.aupload_files([(f"{deferred.workdir}/b", b"b")]))[0].error is None
        assert (await deferred.adownload_files([f"{deferred.workdir}/b"]))[0].content == b"b"
        assert (await deferred.adelete("b")).error is None
        command = await deferred.start(CommandSpec("exit 3"), call_id="one")
        assert (await command.wait()).exit_code == 3
        assert await deferred.command("one") is not None
    finally:
        await end(provider, deferred, made)


async def test_what_made_it_impossible_is_told_to_every_call():
    async def make():
        raise SandboxGone("there is no room")

    deferred = DeferredSandbox("/workspace", make)
    for _ in range(2):
        with pytest.raises(SandboxGone, match="no room"):
            await deferred.als("/")
    await deferred.aclose()


async def test_one_that_is_being_made_is_given_up_when_it_is_closed():
    begun, ended = asyncio.Event(), asyncio.Event()

    async def make():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    deferred = DeferredSandbox("/workspace", make)
    call = asyncio.ensure_future(deferred.als("/"))
    await begun.wait()
    await deferred.aclose()
    assert ended.is_set()
    with pytest.raises(asyncio.CancelledError):
        await call
