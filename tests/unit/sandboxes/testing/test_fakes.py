"""The named fakes misbehave as they say, over a real sandbox."""

import asyncio
import time

import pytest

from sandboxes.errors import ProviderUnavailable, SandboxGone
from sandboxes.providers.base import SandboxSpec, SnapshotHandle
from sandboxes.providers.local import LocalProvider
from sandboxes.sandbox import CommandSpec
from sandboxes.testing.fakes import Broken, Never, Slow

LATE = 0.2
PATIENCE = 0.3
DEADLINE = 20.0


@pytest.fixture
def provider(tmp_path):
    return LocalProvider(tmp_path)


@pytest.fixture
async def handle(provider):
    made = await provider.create(SandboxSpec())
    yield made
    await provider.destroy(made)


@pytest.fixture
async def real(provider, handle):
    async with await provider.attach(handle) as sandbox:
        yield sandbox


async def _content():
    yield b"streamed"


_NOTHING: dict[str, bytes] = {}
CALLS = {
    "ls": lambda box: box.als("."),
    "read": lambda box: box.aread("file", byte_offset=1),
    "grep": lambda box: box.agrep("text", ".", "*", max_count=1),
    "glob": lambda box: box.aglob("*"),
    "write": lambda box: box.awrite("new", "x"),
    "edit": lambda box: box.aedit("file", "text", "text"),
    "delete": lambda box: box.adelete("none"),
    "upload_files": lambda box: box.aupload_files([("up", b"x")]),
    "download_files": lambda box: box.adownload_files(["file"]),
    "execute": lambda box: box.aexecute("echo hello"),
    "start": lambda box: box.start(CommandSpec("true")),
    "command": lambda box: box.command("none"),
    "download_stream": lambda box: anext(box.download_stream("file")),
    "upload_stream": lambda box: box.upload_stream("streamed", _content()),
    "manifest": lambda box: box.manifest("/workspace"),
    "changes": lambda box: box.changes("/workspace", {}),
    "apply": lambda box: box.apply("/workspace", [], _NOTHING.__getitem__, call_id="apply"),
}


@pytest.mark.parametrize(("name", "call"), CALLS.items(), ids=CALLS)
async def test_a_broken_call_raises_its_error_and_every_other_call_works(real, name, call):
    await real.aupload_files([("file", b"text")])
    broken = Broken(SandboxGone("it was shot"), only={name}).sandbox(real)
    with pytest.raises(SandboxGone, match="it was shot"):
        await call(broken)
    for other in CALLS.keys() - {name}:
        await CALLS[other](broken)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_without_names_every_call_is_broken(real, call):
    broken = Broken(SandboxGone("it was shot")).sandbox(real)
    with pytest.raises(SandboxGone):
        await call(broken)


async def test_a_slow_sandbox_answers_right_and_late(real):
    begin = time.monotonic()
    result = await Slow(LATE).sandbox(real).aexecute("echo hello; exit 3")
    assert (result.output, result.exit_code) == ("hello\n", 3)
    assert time.monotonic() - begin >= LATE


async def test_what_never_answers_can_be_given_up_and_the_real_one_goes_on(real):
    never = Never(only={"execute"}).sandbox(real)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await never.aexecute("true")
    assert (await never.als(".")).error is None
    assert (await real.aexecute("true")).exit_code == 0


async def test_a_fake_keeps_who_it_is_and_has_both_forms(real):
    fake = Broken(SandboxGone("gone"), only={"read"}).sandbox(real)
    assert (fake.id, fake.workdir) == (real.id, real.workdir)
    assert (await asyncio.to_thread(fake.write, "new", "x")).error is None
    with pytest.raises(SandboxGone):
        await asyncio.to_thread(fake.read, "new")


PROVIDER_CALLS = {
    "capabilities": lambda made, handle: made.capabilities(),
    "create": lambda made, handle: made.create(SandboxSpec()),
    "attach": lambda made, handle: made.attach(handle),
    "find": lambda made, handle: made.find(),
    "destroy": lambda made, handle: made.destroy(handle),
    "pause": lambda made, handle: made.pause(handle),
    "resume": lambda made, handle: made.resume(handle),
    "fork": lambda made, handle: made.fork(handle, 1),
    "snapshot": lambda made, handle: made.snapshot(handle),
    "find_snapshots": lambda made, handle: made.find_snapshots(),
    "delete_snapshot": lambda made, handle: made.delete_snapshot(SnapshotHandle("local", "snp-0000000000000000")),
}


@pytest.mark.parametrize(("name", "call"), PROVIDER_CALLS.items(), ids=PROVIDER_CALLS)
async def test_a_broken_provider_raises_where_it_was_told_to(provider, handle, name, call):
    broken = Broken(ProviderUnavailable("no engine"), only={name}).provider(provider)
    with pytest.raises(ProviderUnavailable, match="no engine"):
        await call(broken, handle)


async def test_a_provider_with_a_fault_elsewhere_forks_and_keeps_as_the_real_one(provider, handle):
    faulty = Broken(SandboxGone("gone"), only={"ls"}).provider(provider)
    snapshot = await faulty.snapshot(handle)
    assert await faulty.find_snapshots() == [snapshot]
    [child] = await faulty.fork(handle, 1)
    again = await faulty.create(SandboxSpec(), from_snapshot=snapshot)
    await faulty.delete_snapshot(snapshot)
    for made in (child, again):
        await faulty.destroy(made)
    await faulty.resume(handle)
    assert [one.id for one in await provider.find()] == [handle.id]


async def test_a_provider_hands_its_fault_on_to_its_sandboxes(provider, handle):
    faulty = Broken(SandboxGone("gone"), only={"read"}).provider(provider)
    assert faulty.name == provider.name
    async with await faulty.attach(handle) as sandbox:
        assert (await sandbox.als(".")).error is None
        with pytest.raises(SandboxGone):
            await sandbox.aread("file")


async def test_a_provider_whose_sandboxes_are_all_broken_can_still_tidy_up(provider):
    broken = Broken(SandboxGone("gone"), only={"ls"}).provider(provider)
    made = await broken.create(SandboxSpec(), {"fake": "yes"})
    assert [found.id for found in await broken.find({"fake": "yes"})] == [made.id]
    everything = Broken(SandboxGone("gone")).provider(provider)
    async with asyncio.timeout(DEADLINE):
        await everything.destroy(made)
        await everything.aclose()
    assert await provider.find({"fake": "yes"}) == []
