"""Booting where the platform's commands are root's, as in many images: tried in containers, whose root has a user to become."""

from __future__ import annotations

import asyncio
import base64
import socket
import subprocess
import uuid
from pathlib import Path

import pytest

from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.daytona import boot
from sandboxes.providers.daytona.live import own_folder
from sandboxes.toolbox.attached import ToolboxSandbox
from sandboxes.toolbox.bundle import bundle
from sandboxes.toolbox.client import connect
from tests.integration.providers.daytona.conftest import until

pytestmark = pytest.mark.docker
ID = "sbx-0123456789abcdef"


def docker(*words, data=None):
    return subprocess.run(["docker", *words], input=data, capture_output=True, check=True, timeout=60).stdout.decode()


class Container:
    """A sandbox as the platform makes it, before it is booted."""

    def __init__(self, image):
        self.name = f"fanfold-test-boot-{uuid.uuid4().hex[:8]}"
        docker("run", "-d", "--init", "--user", "0", "--network", "none", "--name", self.name, image, "sleep", "300")
        own = own_folder(ID)
        docker("exec", self.name, "mkdir", "-p", own)
        files = {"toolbox.pyz": bundle()}
        files |= {name: (Path(boot.__file__).parent / name).read_bytes() for name in ("boot.sh", "run.sh", "ward.sh")}
        for name, content in files.items():
            docker("exec", "-i", self.name, "sh", "-c", f"cat > {own}/{name}", data=content)

    def boot(self, spec):
        return docker("exec", self.name, "sh", "-c", boot.Boot(spec).command(ID)).strip()

    async def attached(self):
        ours, theirs = socket.socketpair()
        with theirs:
            words = ["docker", "exec", "-i", self.name, "sh", "-c", boot.connect_command(ID)]
            self.bridge = await asyncio.create_subprocess_exec(*words, stdin=theirs, stdout=theirs)
        return ToolboxSandbox(await connect(ours, deadline=30), sandbox_id=ID, workdir="/workspace", on_close=self.bridge.wait)


@pytest.fixture
def container(request):
    made = Container(getattr(request, "param", "fanfold-test/base:latest"))
    yield made
    docker("rm", "-f", made.name)


async def test_root_becomes_a_plain_user_without_any_privilege(container):
    assert container.boot(SandboxSpec()) == "helper"
    async with await container.attached() as sandbox:
        look = "id -u; id -g; id -G; pwd; : > writable; grep -E '^(Cap|NoNew)' /proc/self/status"
        seen = (await sandbox.aexecute(look)).output
        assert seen.split("\n")[:4] == ["1000", "1000", "1000", "/workspace"]
        told = dict(line.split(":\t") for line in seen.splitlines()[4:])
        assert {name: int(value, 16) for name, value in told.items()} == {
            "CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapBnd": 0, "CapAmb": 0, "NoNewPrivs": 1,
        }  # fmt: skip
        for place in ("/usr/bin/owned", "/etc/passwd", f"{own_folder(ID)}/toolbox.pyz", f"{own_folder(ID)}/boot.sh"):
            assert (await sandbox.aexecute(f"exec 3>> {place}")).exit_code != 0
        assert (await sandbox.aexecute("chown 0 writable || kill -9 1 2>/dev/null")).exit_code != 0


async def test_root_that_may_change_the_system_keeps_what_package_managers_need_and_no_more(container):
    assert container.boot(SandboxSpec(system="overlay")) == "helper"
    async with await container.attached() as sandbox:
        look = "id -u; sed -n 's/^CapEff:\\s*//p' /proc/self/status; touch /usr/bin/new && echo made"
        uid, capabilities, made = (await sandbox.aexecute(look)).output.split()
        assert (uid, made) == ("0", "made")
        assert int(capabilities, 16) == sum(1 << number for number in (0, 1, 3, 6, 7))


async def test_when_its_lifetime_is_over_nothing_that_was_started_goes_on(container):
    assert container.boot(SandboxSpec(lifetime=3)) == "helper"
    async with await container.attached() as sandbox:
        await sandbox.aexecute("(setsid env -i sleep 4321 >/dev/null 2>&1 &) ; true")
        assert "4321" in docker("top", container.name)
        await until(lambda: "4321" not in docker("top", container.name), "the process is dead")
        assert "toolbox.pyz serve" not in docker("top", container.name)


@pytest.mark.parametrize("container", ["fanfold-test/nopython:latest"], indirect=True)
class TestWithoutPython:
    async def test_each_command_is_a_plain_users(self, container):
        assert container.boot(SandboxSpec()) == "sh"
        script = base64.b64encode(b"id -u; cat; grep -E '^(CapEff|NoNew)' /proc/self/status; echo apart >&2; exit 7").decode()
        words = ["sh", f"{own_folder(ID)}/run.sh", "1000", script, base64.b64encode(b"given\n").decode()]
        code, err, out = docker("exec", container.name, *words).split(".\n")
        assert base64.b64decode(out).split() == [b"1000", b"given", b"CapEff:", b"0" * 16, b"NoNewPrivs:", b"1"]
        assert (base64.b64decode(err), code) == (b"apart\n", "7\n")

    async def test_when_its_lifetime_is_over_nothing_is_run_any_more(self, container):
        assert container.boot(SandboxSpec(lifetime=1)) == "sh"
        words = ["sh", f"{own_folder(ID)}/run.sh", "1000", base64.b64encode(b"echo").decode(), "-"]
        await until(lambda: docker("exec", container.name, *words) == "ended\n", "it has ended")

    async def test_an_image_that_would_run_everything_as_root_is_refused(self, container):
        docker("exec", container.name, "rm", "/usr/bin/setpriv")
        with pytest.raises(subprocess.CalledProcessError) as refusal:
            container.boot(SandboxSpec())
        assert b"failed: this image has neither python3 nor setpriv" in refusal.value.stdout

    async def test_root_may_stay_root_where_that_was_asked_for(self, container):
        docker("exec", container.name, "rm", "/usr/bin/setpriv")
        assert container.boot(SandboxSpec(system="overlay")) == "sh"
