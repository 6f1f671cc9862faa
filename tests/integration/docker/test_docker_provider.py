"""What is particular to the docker provider; the rest is the conformance kit's."""

import asyncio
import io
import json
import os
import tarfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from docker.types import Mount as EngineMount

from sandboxes.errors import (
    ImageNotFound,
    InvalidSpec,
    ProviderUnavailable,
    SandboxError,
    SandboxGone,
    SandboxNotFound,
    Unsupported,
)
from sandboxes.providers.base import SandboxHandle, SandboxSpec
from sandboxes.providers.docker import DockerProvider, images, layout, porters, waiting
from sandboxes.providers.ids import new_sandbox_id
from sandboxes.sandbox import CommandSpec
from tests.integration.docker.conftest import BASE

pytestmark = pytest.mark.docker

PLAIN = "fanfold-test/nopython:latest"
BUSYBOX = "fanfold-test/busybox:latest"


@pytest.fixture
def provider(image, provider):
    """The images outlive their sandboxes."""
    return provider


@pytest.fixture
def ask(provider, create):
    """The output of a command in a new sandbox."""

    async def ask(command, **fields):
        async with await provider.attach(await create(**fields)) as sandbox:
            return (await sandbox.aexecute(command)).output

    return ask


@pytest.fixture
def image(api):
    """Makes an image from the base by a Dockerfile's instructions, with more files; removes it afterwards."""
    made = []

    def image(*changes, files=b""):
        tag = f"fanfold-test/made-{uuid.uuid4().hex[:12]}"
        container = api.create_container(BASE, command=["/"])["Id"]
        if files:
            api.put_archive(container, "/", files)
        api.commit(container, repository=tag, changes=list(changes))
        api.remove_container(container)
        made.append(tag)
        return tag

    yield image
    for tag in made:
        api.remove_image(tag, force=True)


def leftovers(api, sandbox_id):
    containers = [name for item in api.containers(all=True) for name in item["Names"] if sandbox_id in name]
    volumes = [volume["Name"] for volume in api.volumes()["Volumes"] or [] if sandbox_id in volume["Name"]]
    return containers + volumes


async def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        await asyncio.sleep(0.05)


# -- what a sandbox is


async def test_the_working_directory_belongs_to_a_user_who_is_not_root(ask):
    assert await ask("id -u; stat -c '%u %a' .; pwd") == "1000\n1000 755\n/workspace\n"


async def test_an_image_whose_user_has_a_name_runs_as_that_user(ask, image):
    assert await ask("id -u; id -g; touch file", image=image("USER games")) == "5\n60\n"


async def test_a_user_that_the_image_does_not_have_is_refused(create, provider, labels):
    with pytest.raises(InvalidSpec, match=r"user 'nobody-here' is not in the image's /etc/passwd \(it has: .*root"):
        await create(user="nobody-here")
    assert await provider.find(labels) == []


async def test_a_folder_of_the_image_is_the_working_directory_with_what_is_in_it(ask):
    assert "hostname\n" in await ask("ls; touch fresh", workdir="/etc")


async def test_a_writable_system_is_root_in_the_container_and_still_gains_nothing(ask):
    said = await ask("touch /usr/new && echo written; id -u; grep NoNewPrivs /proc/self/status", system="overlay")
    assert said == "written\n0\nNoNewPrivs:\t1\n"


async def test_the_toolbox_cannot_be_changed_by_root_in_the_container_either(ask):
    said = await ask("touch /.fanfold/toolbox/x", system="overlay", user="root")
    assert "Read-only file system" in said


async def test_a_healthcheck_and_an_entrypoint_of_the_image_do_not_run(ask, image):
    tag = image('ENTRYPOINT ["/bin/false"]', "HEALTHCHECK CMD touch /tmp/checked")
    assert await ask("echo fine", image=tag) == "fine\n"


async def test_two_sandboxes_share_one_toolbox(create, api):
    first, second = await create(), await create()
    mounts = [
        {mount["Name"] for mount in api.inspect_container(one.id)["Mounts"] if mount["Destination"] == layout.TOOLBOX}
        for one in (first, second)
    ]
    assert mounts[0] == mounts[1] == {layout.toolbox_volume()}


async def test_a_disk_limit_is_an_error_inside_and_leaves_the_sandbox_well(provider, create):
    async with await provider.attach(await create(resources={"disk": "8MiB"})) as sandbox:
        full = await sandbox.aexecute("head -c 20000000 /dev/zero > big")
        assert "No space left on device" in full.output
        assert (await sandbox.adelete("/workspace/big")).error is None
        assert (await sandbox.awrite("/workspace/small", "x")).error is None


async def test_an_image_cannot_bring_the_toolbox_of_all_sandboxes(api, image, monkeypatch):
    volume = f"fanfold-toolbox-test-{uuid.uuid4().hex[:8]}"
    monkeypatch.setattr(layout, "toolbox_volume", lambda: volume)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in (layout.TOOLBOX_MARK, "toolbox.pyz", "boot.sh"):
            archive.addfile(tarfile.TarInfo(f"toolbox/{name}"))
    porters.ensure_toolbox(api, image(files=packed.getvalue()))
    try:
        with porters.porter(api, f"{volume}-look", BASE, [EngineMount("/toolbox", volume, type="volume")]) as look:
            assert images.read_text(api, look, "/toolbox/boot.sh").startswith("# The first process of a sandbox")
    finally:
        api.remove_volume(volume)


async def test_a_toolbox_that_was_pruned_is_made_again(provider, create, api, monkeypatch):
    monkeypatch.setattr(layout, "toolbox_volume", lambda: f"fanfold-toolbox-test-{os.getpid()}")
    first = await create()
    await provider.destroy(first)
    api.remove_volume(layout.toolbox_volume())
    second = await create()
    assert second.data["transport"] == "helper"
    await provider.destroy(second)
    api.remove_volume(layout.toolbox_volume())


# -- transports


@pytest.mark.parametrize(("image", "transport"), [(BASE, "helper"), (PLAIN, "sh"), (BUSYBOX, "sh")])
async def test_the_handle_says_which_transport_the_image_needs(create, image, transport):
    assert (await create(image=image)).data["transport"] == transport


@pytest.mark.parametrize("image", [BASE, PLAIN])
async def test_a_handle_that_was_found_attaches_like_the_one_that_was_made(provider, create, labels, image):
    made = await create(image=image)
    [found] = await provider.find(labels)
    assert (found.id, found.labels, found.created_at, found.expires_at) == (made.id, labels, made.created_at, made.expires_at)
    async with await provider.attach(SandboxHandle.from_json(json.loads(json.dumps(found.to_json())))) as sandbox:
        assert (await sandbox.aexecute("echo fine")).output == "fine\n"


async def test_a_python_that_cannot_run_the_helper_means_plain_exec(provider, create):
    handle = await create(mounts=[{"target": "/usr/lib/python3.11/queue.py", "mode": "hidden"}])
    assert handle.data["transport"] == "sh"
    async with await provider.attach(handle) as sandbox:
        assert (await sandbox.aexecute("echo fine")).output == "fine\n"


# -- ends


async def test_a_sandbox_whose_lifetime_is_over_says_so(provider, create, api):
    handle = await create(lifetime=1)
    await until(lambda: not api.inspect_container(handle.id)["State"]["Running"])
    with pytest.raises(SandboxGone, match="its lifetime or its idle limit was over"):
        await provider.attach(handle)


async def test_a_sandbox_that_was_killed_says_so(provider, create, api):
    handle = await create()
    api.kill(handle.id)
    await until(lambda: not api.inspect_container(handle.id)["State"]["Running"])
    with pytest.raises(SandboxGone, match="killed, or failed"):
        await provider.attach(handle)


async def test_a_paused_sandbox_is_told_apart_from_one_that_ended(provider, create, api):
    handle = await create(image=PLAIN)
    api.pause(handle.id)
    with pytest.raises(SandboxError, match="docker unpause"):
        await provider.attach(handle)
    api.unpause(handle.id)


async def test_destroying_leaves_nothing_and_may_be_repeated(provider, create, api):
    handle = await create()
    assert leftovers(api, handle.id)
    await asyncio.gather(*(provider.destroy(handle) for _ in range(3)))
    assert leftovers(api, handle.id) == []
    with pytest.raises(SandboxNotFound):
        await provider.attach(handle)


async def test_a_container_that_is_not_ours_is_never_removed(provider, api):
    name = new_sandbox_id()
    api.create_container(BASE, command=["true"], name=name)
    try:
        with pytest.raises(SandboxError, match="not made by Fanfold"):
            await provider.destroy(SandboxHandle("docker", name))
        assert api.inspect_container(name)
        await provider.destroy(SandboxHandle("docker", "postgres"))
    finally:
        api.remove_container(name)


async def test_a_create_that_is_given_up_leaves_nothing(provider, labels, api):
    making = asyncio.create_task(provider.create(SandboxSpec(), labels))
    await until(lambda: api.containers(all=True, filters={"label": f"{layout.USER_LABEL_PREFIX}test={labels['test']}"}))
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert await provider.find(labels) == []


async def test_an_image_without_a_shell_is_refused_and_leaves_nothing(create, provider, labels, api):
    tag = f"fanfold-test/empty-{uuid.uuid4().hex[:12]}"
    api.import_image_from_data(layout.folders_archive([layout.Owned("etc", 0, 0, 0o755)]), repository=tag)
    try:
        with pytest.raises(SandboxError, match="no usable /bin/sh"):
            await create(image=tag)
        assert await provider.find(labels) == []
    finally:
        api.remove_image(tag)


# -- what cannot be had


async def test_a_missing_image_is_told_without_pulling_it(create):
    with pytest.raises(ImageNotFound, match="docker pull fanfold-test/no-such-image"):
        await create(image="fanfold-test/no-such-image:latest")


async def test_a_missing_image_that_cannot_be_pulled_says_why():
    provider = DockerProvider(BASE, pull="missing")
    with pytest.raises(ImageNotFound, match="could not be pulled: "):
        await provider.create(SandboxSpec(image="localhost:1/no-such-image:1"))
    await provider.aclose()


async def test_an_engine_that_is_not_running_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    provider = DockerProvider(BASE)
    with pytest.raises(ProviderUnavailable, match=r"none\.sock.*DOCKER_HOST"):
        await provider.create(SandboxSpec())
    await provider.aclose()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"network": "allowlist", "allowed_hosts": ["example.org"]}, "allowlist"),
        ({"resources": {"disk": "1MiB"}, "system": "overlay"}, "only with `system: read-only`"),
        ({"runtime": "no-such-runtime"}, "runtime"),
        ({"rootfs": "/"}, "rootfs"),
    ],
)
async def test_what_cannot_be_enforced_is_refused(create, fields, reason):
    with pytest.raises(Unsupported, match=reason):
        await create(**fields)


async def test_a_missing_place_cannot_be_made_read_only(create):
    with pytest.raises(InvalidSpec, match="has no /no/such/place"):
        await create(mounts=[{"target": "/no/such/place"}])


# -- plain exec


@pytest.mark.parametrize("image", [PLAIN, BUSYBOX])
async def test_a_command_over_plain_exec_keeps_the_sandboxs_own_environment(ask, image):
    said = await ask("env", image=image, env={"LC_ALL": "C.UTF-8", "PATH": "/bin:/opt/own"})
    lines = said.splitlines()
    assert {"LC_ALL=C.UTF-8", "PATH=/bin:/opt/own"} <= set(lines)
    assert {line.partition("=")[0] for line in lines if line.startswith("FANFOLD_")} == {"FANFOLD_CALL"}


@pytest.mark.parametrize("image", [PLAIN, BUSYBOX])
async def test_a_command_over_plain_exec_that_ended_leaves_no_process(provider, create, image):
    async with await provider.attach(await create(image=image)) as sandbox:
        for _ in range(3):
            await sandbox.aexecute("true", timeout=300)
        command = await sandbox.start(CommandSpec("cat", stdin=True, timeout=300))
        await command.send(b"", eof=True)
        await command.wait()

        async def busy():
            words = await sandbox.aexecute("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'")
            return {"300.000", "2147483647"} & set(words.output.splitlines())  # the alarms, and the holder of stdin

        end = time.monotonic() + 20
        while await busy():
            assert time.monotonic() < end, "something still sleeps"


def test_of_those_that_take_over_from_one_that_died_none_takes_it_from_another(api, monkeypatch):
    monkeypatch.setattr(waiting, "BUSY_SECONDS", 2.0)
    name = f"fanfold-test-{uuid.uuid4().hex}-porter"
    porters.make(api, name, BASE, [])

    def fill(number):
        porter = porters.make_alone(api, name, BASE, [])
        api.put_archive(porter, "/tmp", layout.folders_archive([layout.Owned(f"made-{number}", 0, 0, 0o755)]))
        porters.remove(api, porter)
        return porter

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(fill, range(4)))) == 4
