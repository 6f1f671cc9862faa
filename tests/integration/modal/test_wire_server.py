"""The wire server is strict about what it accepts: what passes against it does not do so by chance."""

import os

import modal
import pytest
from modal import exception as theirs

from tests.integration.modal.conftest import IMAGE

pytestmark = pytest.mark.docker


@pytest.fixture
async def client(server):
    made = await modal.Client.from_credentials.aio(os.environ["MODAL_TOKEN_ID"], os.environ["MODAL_TOKEN_SECRET"])
    yield made
    await made.close.aio()


@pytest.fixture
async def app(client):
    return await modal.App.lookup.aio("strict", create_if_missing=True, client=client)


@pytest.fixture
async def sandbox(client, app, server):
    image = modal.Image.from_registry(IMAGE)
    made = await modal.Sandbox.create.aio("sleep", "600", app=app, image=image, client=client, block_network=True)
    yield made
    await made.terminate.aio(wait=True)
    await made.detach.aio()


async def test_what_it_does_not_speak_is_refused_by_name(client):
    with pytest.raises(theirs.UnimplementedError, match="VolumeGetOrCreate"):
        await modal.Volume.from_name("any", create_if_missing=True, client=client).hydrate.aio()


async def test_unknown_ids_are_not_found(client, app):
    with pytest.raises(theirs.NotFoundError, match="sb-01UNKNOWN"):
        await modal.Sandbox.from_id.aio("sb-01UNKNOWN", client=client)
    with pytest.raises(theirs.NotFoundError):
        await modal.Sandbox.from_name.aio("strict", "nobody", client=client)
    with pytest.raises(theirs.NotFoundError, match="im-01UNKNOWN"):
        await modal.Sandbox.create.aio("true", app=app, image=modal.Image.from_id("im-01UNKNOWN", client=client), client=client)


async def test_who_has_no_key_or_a_wrong_one_is_not_let_in(server):
    wrong = await modal.Client.from_credentials.aio("ak-wrong", "as-wrong")
    with pytest.raises(theirs.AuthError):
        await modal.App.lookup.aio("strict", client=wrong)
    await wrong.close.aio()


@pytest.mark.parametrize("tags", [{"a b": "c"}, {"a": "ü"}, {"a": ""}, {"a": "x" * 64}])
async def test_tags_that_the_platform_would_not_take_are_refused(client, app, tags):
    image = modal.Image.from_registry(IMAGE)
    with pytest.raises(theirs.InvalidError, match="Invalid tag"):
        await modal.Sandbox.create.aio("true", app=app, image=image, tags=tags, client=client)


async def test_a_name_is_given_once_at_a_time(client, app, server):
    image = modal.Image.from_registry(IMAGE)
    first = await modal.Sandbox.create.aio("sleep", "600", app=app, image=image, name="one", client=client)
    with pytest.raises(theirs.AlreadyExistsError):
        await modal.Sandbox.create.aio("sleep", "600", app=app, image=image, name="one", client=client)
    await first.terminate.aio(wait=True)
    second = await modal.Sandbox.create.aio("true", app=app, image=image, name="one", client=client)
    await second.wait.aio()
    for one in (first, second):
        await one.detach.aio()


async def test_a_command_has_its_streams_and_its_exit_code(sandbox):
    process = await sandbox.exec.aio("sh", "-c", "cat; echo err >&2; exit 3", text=False)
    process.stdin.write(b"in\0")
    process.stdin.write_eof()
    await process.stdin.drain.aio()
    assert await process.stdout.read.aio() == b"in\0"
    assert await process.stderr.read.aio() == b"err\n"
    assert await process.wait.aio() == 3


async def test_a_command_that_is_too_late_is_killed(sandbox):
    process = await sandbox.exec.aio("sleep", "600", timeout=1)
    assert await process.wait.aio() in (-1, 137)


async def test_idleness_and_lifetime_end_a_sandbox(client, app):
    image = modal.Image.from_registry(IMAGE)
    idle = await modal.Sandbox.create.aio("sleep", "600", app=app, image=image, idle_timeout=1, client=client)
    late = await modal.Sandbox.create.aio("sleep", "600", app=app, image=image, timeout=1, client=client)
    await idle.wait.aio()
    with pytest.raises(theirs.SandboxTimeoutError):
        await late.wait.aio()
    assert (idle.returncode, late.returncode) == (0, 124)
    for one in (idle, late):
        with pytest.raises(theirs.Error):
            await one.exec.aio("true")
        await one.detach.aio()


async def test_a_snapshot_is_a_copy_without_the_variables_of_what_it_is_of(client, app):
    image, secret = modal.Image.from_registry(IMAGE), modal.Secret.from_dict({"KEY": "s3cret"})
    first = await modal.Sandbox.create.aio("sleep", "600", app=app, image=image, secrets=[secret], client=client)
    await (await first.exec.aio("sh", "-c", "echo old > /kept; echo $KEY > /key")).wait.aio()
    copy = await first.snapshot_filesystem.aio()
    await (await first.exec.aio("sh", "-c", "echo new > /kept")).wait.aio()
    second = await modal.Sandbox.create.aio("sleep", "600", app=app, image=copy, client=client)
    told = await second.exec.aio("sh", "-c", 'cat /kept /key; echo "[${KEY-unset}]"')
    assert await told.stdout.read.aio() == "old\ns3cret\n[unset]\n"
    for one in (first, second):
        await one.terminate.aio(wait=True)
        await one.detach.aio()


async def test_a_dockerfile_that_says_more_than_it_speaks_is_refused_by_name(client, app, tmp_path):
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nHEALTHCHECK CMD true\n")
    with pytest.raises(theirs.UnimplementedError, match="HEALTHCHECK"):
        await modal.Image.from_dockerfile(tmp_path / "Dockerfile", context_dir=tmp_path).build.aio(app)
