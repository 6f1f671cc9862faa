"""What is particular to the modal provider; the rest is the conformance kit's."""

import json
import time

import pytest
from modal_proto import api_pb2

from sandboxes.errors import ImageNotFound, InvalidSpec, SandboxError, Unsupported
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.modal import ModalProvider, layout
from sandboxes.sandbox import CommandSpec
from tests.integration.modal.conftest import IMAGE

pytestmark = pytest.mark.docker
ACCESS = api_pb2.NetworkAccess.NetworkAccessType


def asked(server, handle):
    """What the platform was asked to make."""
    return server.sandbox(handle.id).definition


async def test_limits_are_the_platforms_own(server, create):
    handle = await create(resources={"cpu": 0.5, "memory": "300MiB"}, lifetime=1234.5, idle_timeout=60)
    wanted = asked(server, handle)
    assert (wanted.timeout_secs, wanted.idle_timeout_secs) == (1235, 0)  # commands that nobody waits for are no idleness
    limits = wanted.resources
    assert (limits.milli_cpu, limits.milli_cpu_max, limits.memory_mb, limits.memory_mb_max) == (500, 500, 300, 300)


@pytest.mark.parametrize(
    ("network", "hosts", "access"),
    [("none", [], ACCESS.BLOCKED), ("public", [], ACCESS.OPEN), ("allowlist", ["*.example.org"], ACCESS.ALLOWLIST)],
)
async def test_the_network_is_the_platforms_own(server, create, network, hosts, access):
    wanted = asked(server, await create(network=network, allowed_hosts=hosts)).network_access
    assert (wanted.network_access_type, list(wanted.allowed_domains), list(wanted.allowed_cidrs)) == (access, hosts, [])


async def test_the_environment_is_in_no_tag_and_on_no_command_line(server, create):
    handle = await create(env={"KEY": "s3cret-value"})
    kept = server.sandbox(handle.id)
    assert "s3cret-value" not in json.dumps(kept.tags)
    assert "s3cret-value" not in str(kept.definition)


async def test_labels_are_tags_that_people_can_filter_by(server, provider, labels):
    handle = await provider.create(SandboxSpec(), {**labels, "run": "run-1", "note": "ü and more"})
    tags = server.sandbox(handle.id).tags
    assert (tags["run"], tags["test"]) == ("run-1", labels["test"])
    assert [dict(one.labels)["note"] for one in await provider.find({**labels, "note": "ü and more"})] == ["ü and more"]


@pytest.mark.parametrize(
    ("fields", "error", "why"),
    [
        ({"lifetime": 86401}, Unsupported, "ends every sandbox after 86400 s"),
        ({"user": "root"}, Unsupported, "system: overlay"),
        ({"user": "0:0"}, Unsupported, "system: overlay"),
        ({"workdir": "/"}, InvalidSpec, "choose a path"),
        ({"workdir": "/.fanfold/x"}, InvalidSpec, "choose a path"),
        ({"network": "allowlist"}, InvalidSpec, "needs allowed_hosts"),
        ({"env": {"a-b": "c"}}, InvalidSpec, "'a-b'"),
        ({"resources": {"disk": "1GiB"}}, Unsupported, r"resources\.disk"),
        ({"mounts": [{"target": "/x", "mode": "hidden"}]}, Unsupported, "mounts"),
        ({"user": "nobody-of-this-name"}, SandboxError, "nobody-of-this-name"),
        ({"image": "fanfold.invalid/no/such:image"}, ImageNotFound, "fanfold.invalid/no/such:image"),
        ({"image": "im-01NOSUCHIMAGE"}, SandboxError, "im-01NOSUCHIMAGE"),
        ({"image": "fanfold-test/busybox:latest"}, SandboxError, "setpriv"),
    ],
)
async def test_what_cannot_be_is_refused_and_leaves_nothing(server, create, fields, error, why):
    with pytest.raises(error, match=why):
        await create(**fields)
    assert server.sandboxes() == []


async def test_an_image_can_be_one_of_the_platforms_own(server, provider, create):
    handle = await create()
    built = asked(server, handle).image_id
    async with await provider.attach(await create(image=built)) as sandbox:
        assert (await sandbox.aexecute("echo fine")).output == "fine\n"


async def test_a_user_may_be_a_name_of_the_image(provider, create):
    async with await provider.attach(await create(user="daemon")) as sandbox:
        assert (await sandbox.aexecute("id -un; id -gn; echo x > own; stat -c %U own")).output == "daemon\ndaemon\ndaemon\n"


async def test_root_of_a_writable_system_keeps_what_package_managers_need_and_nothing_else(provider, create):
    async with await provider.attach(await create(system="overlay")) as sandbox:
        script = (
            "id -u; grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; chown daemon . && chown root . && echo x > /usr/own"
        )
        told = (await sandbox.aexecute(script)).output.split()
    assert told == ["0", "CapEff:", "00000000000000cb", "CapBnd:", "00000000000000cb", "NoNewPrivs:", "1"]


async def test_a_command_is_one_request_and_many_at_once_are_no_more_than_that_each(server, provider, create):
    async with await provider.attach(await create()) as sandbox:
        await sandbox.aexecute("true")
        server.counts.taken()
        for number in range(3):
            await sandbox.awrite(f"file-{number}", "text")
            await sandbox.aexecute("echo fine")
    counted = server.counts.taken()
    assert set(counted) == {"TaskExecStdinWrite", "TaskExecStdioRead"}
    assert (counted["TaskExecStdinWrite"].requests, counted["TaskExecStdioRead"].requests) == (6 + 1, 0)  # and the goodbye


async def test_a_timeout_kills_the_commands_tree_on_the_platform_too(server, provider, create):
    async with await provider.attach(await create()) as sandbox:
        result = await sandbox.aexecute("echo begun; (setsid sleep 4321 &); sleep 4321", timeout=1)
        assert (result.exit_code, result.timed_out, result.output) == (124, True, "begun\n")
        look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 432[1]'"
        assert (await sandbox.aexecute(look)).output == "0\n"


async def test_who_is_gone_leaves_a_command_that_goes_on_and_whose_result_is_told(server, provider, create):
    handle = await create(idle_timeout=30)
    first = ModalProvider(IMAGE)
    sandbox = await first.attach(handle)
    await sandbox.start(CommandSpec("echo begun; while [ ! -e go ]; do sleep 0.05; done; exit 7"), call_id="long")
    await sandbox.aclose()
    await first.aclose()
    async with await provider.attach(handle) as again:
        command = await again.command("long")
        await again.awrite("go", "")
        assert (await command.wait()).exit_code == 7


async def test_a_sandbox_that_nobody_claims_ends_by_itself(server, provider, labels, monkeypatch):
    monkeypatch.setattr(layout, "CLAIM_SECONDS", 0)
    server.faults.add("TaskExecStart", "slow", times=1, seconds=20)
    begin = time.monotonic()
    with pytest.raises(SandboxError, match="has ended"):
        await provider.create(SandboxSpec(), labels)
    assert time.monotonic() - begin < 60
    assert server.sandboxes() == []


async def test_root_follows_no_link_that_the_sandbox_has_put_where_its_state_is(provider, create):
    handle = await create(image="fanfold-test/nopython:latest", idle_timeout=30)
    async with await provider.attach(handle) as sandbox:
        active = f"/.fanfold/{handle.id}/state/sh/active"
        # What is written through the link belongs to whoever has written it. The boot script does so each second.
        look = "[ ! -e there ] || [ -O there ] || echo another >> seen; rm -f there; sleep 0.02"
        script = f"ln -sf $PWD/there {active}; i=0; while [ $i -lt 150 ]; do i=$((i + 1)); {look}; done; rm {active}"
        await (await sandbox.start(CommandSpec(script))).wait()
        assert (await sandbox.aexecute("cat seen")).exit_code != 0
