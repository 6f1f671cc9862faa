"""Checks that a sandbox sees nothing of the host, of other sandboxes or of a network, and can change nothing but itself."""

from __future__ import annotations

import asyncio
import shlex
import socket
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sandboxes.sandbox import CommandSpec, Sandbox
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, Maker, fails, finished, get, ok, put, until, walled

DIAL_SECONDS = 3
DIAL = (
    f"timeout {DIAL_SECONDS} bash -c 'exec 3<>/dev/tcp/{{host}}/{{port}}' 2>/dev/null"
    f" || timeout {DIAL_SECONDS} nc -w 2 {{host}} {{port}} </dev/null >/dev/null 2>&1"
    f" || timeout {DIAL_SECONDS} python3 -c 'import socket; socket.create_connection((\"{{host}}\", {{port}}), 2)' 2>/dev/null"
)
"""Shell that succeeds when a TCP connection can be made, with whatever the image has to make one."""

KERNELS_OWN = ("tunl", "gre", "sit", "ip6", "erspan", "ip_vti")
"""Interfaces that some kernels put, unconfigured, into every new network."""

CLOSED_PLACES = (
    "/usr/bin/sh-owned", "/etc/owned", "/usr/lib/owned", "/sys/owned", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern", "/sys/kernel/uevent_helper",
)  # fmt: skip
"""What a command must not be able to open for writing."""


@asynccontextmanager
async def listener(address: str = "0.0.0.0") -> AsyncIterator[tuple[int, list[object]]]:
    """A TCP server of the host: its port, and the connections that reached it."""
    reached: list[object] = []

    def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(writer.get_extra_info("peername"))
        writer.close()

    server = await asyncio.start_server(accept, address, 0)
    async with server:
        yield server.sockets[0].getsockname()[1], reached


def addresses() -> list[str]:
    """IPv4 addresses by which a neighbour may call this host: loopback, and the one towards the default route."""
    found = ["127.0.0.1"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(("192.0.2.1", 9))  # documentation address; a datagram socket sends nothing here
            found.append(probe.getsockname()[0])
        except OSError:
            pass  # a host without a default route has no such address
    return found


class IsolationChecks(Checks):
    """The walls."""

    async def test_no_file_of_the_host_can_be_seen(self, sandbox: Sandbox, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("host secret")
        await fails(sandbox, f"cat {shlex.quote(str(secret))}")
        assert (await sandbox.aread(str(secret))).error is not None
        assert [response.content for response in await sandbox.adownload_files([str(secret)])] == [None]

    async def test_the_homes_of_the_host_cannot_be_seen(self, sandbox: Sandbox) -> None:
        marker = Path.home() / f".fanfold-check-{uuid.uuid4().hex}"
        marker.write_text("host secret")
        try:
            assert await ok(sandbox, f"cat {shlex.quote(str(marker))} 2>/dev/null || echo unseen") == "unseen\n"
            assert marker.name not in await ok(sandbox, "ls -A /root /home /home/* 2>/dev/null || true")
        finally:
            marker.unlink()

    async def test_the_environment_of_the_host_cannot_be_seen(self, fresh: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FANFOLD_CHECK_SECRET", "s3cret-of-the-host")
        made = await fresh()
        seen = await ok(made.sandbox, "env; cat /proc/[0-9]*/environ 2>/dev/null || true")
        assert "s3cret-of-the-host" not in seen
        assert "PATH=" in seen

    async def test_the_processes_of_the_host_cannot_be_seen(self, sandbox: Sandbox) -> None:
        marker = f"host-process-{uuid.uuid4().hex}"
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", marker, stdin=asyncio.subprocess.PIPE)
        try:
            assert marker not in await ok(sandbox, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; true")
        finally:
            process.kill()
            await process.wait()

    async def test_a_signal_cannot_leave_the_sandbox(self, sandbox: Sandbox) -> None:
        process = await asyncio.create_subprocess_exec("sleep", "600")
        try:
            await sandbox.aexecute(f"kill -9 {process.pid} 2>/dev/null; true")
            assert Path(f"/proc/{process.pid}/stat").read_text().split()[2] in "SDR"
        finally:
            process.kill()
            await process.wait()

    async def test_without_a_network_there_is_only_loopback(self, fresh: Maker) -> None:
        made = await fresh(network="none")
        listed = await ok(made.sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1")
        assert [name for name in listed.split() if not name.startswith(KERNELS_OWN)] == ["lo"]

    async def test_without_a_network_the_host_cannot_be_reached(self, fresh: Maker) -> None:
        made = await fresh(network="none")
        async with listener() as (port, reached):
            for host in [*addresses(), "172.17.0.1", "10.0.2.2"]:
                await fails(made.sandbox, DIAL.format(host=host, port=port))
            assert reached == []

    async def test_without_a_network_names_are_not_resolved(self, fresh: Maker) -> None:
        made = await fresh(network="none")
        await fails(made.sandbox, "timeout 10 getent ahosts example.org || timeout 10 nslookup example.org")

    async def test_a_sandbox_can_serve_itself_on_loopback(self, fresh: Maker) -> None:
        made = await fresh(network="none")
        assert "127.0.0.1" in await ok(made.sandbox, "cat /proc/net/fib_trie 2>/dev/null || echo 127.0.0.1")

    async def test_abstract_sockets_of_the_host_cannot_be_seen(self, fresh: Maker) -> None:
        made = await fresh(network="none")
        name = f"fanfold-check-{uuid.uuid4().hex}"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"\0{name}")
            server.listen()
            assert name not in await ok(made.sandbox, "cat /proc/net/unix 2>/dev/null || true")

    async def test_a_public_network_does_not_lead_to_what_listens_on_the_hosts_loopback(self, fresh: Maker) -> None:
        made = await fresh.or_refused(network="public")
        if made is None:
            return
        async with listener("127.0.0.1") as (port, reached):
            await fails(made.sandbox, DIAL.format(host="127.0.0.1", port=port))
            assert reached == []

    async def test_with_a_public_network_there_is_a_way_out(self, fresh: Maker) -> None:
        made = await fresh.or_refused(network="public")
        if made is None:
            return
        async with listener() as (port, reached):
            dial = " || ".join(f"({DIAL.format(host=host, port=port)})" for host in addresses()[1:] or addresses())
            await ok(made.sandbox, dial)

            async def arrived() -> bool:
                return reached != []

            await until(arrived, "the call has arrived")

    async def test_an_allowlist_holds_or_is_refused(self, fresh: Maker) -> None:
        made = await fresh.or_refused(network="allowlist", allowed_hosts=["allowed.invalid"])
        if made is None:
            return
        async with listener() as (port, reached):
            for host in addresses():
                await fails(made.sandbox, DIAL.format(host=host, port=port))
            assert reached == []

    @pytest.mark.parametrize("path", CLOSED_PLACES)
    async def test_the_system_cannot_be_written(self, sandbox: Sandbox, path: str) -> None:
        await fails(sandbox, f"exec 3>> {path}")
        if not path.startswith(("/proc", "/sys")):  # nothing is ever written to the kernel's own
            assert (await sandbox.aupload_files([(path, b"")]))[0].error is not None

    async def test_an_overlaid_system_can_be_written_and_is_the_sandboxes_own(self, fresh: Maker) -> None:
        made = await fresh.or_refused(system="overlay")
        if made is None:
            return
        name = f"/usr/local/check-{uuid.uuid4().hex}"
        await ok(made.sandbox, f"echo mine > {name} && grep -q mine {name}")
        assert not Path(name).exists()
        await fails((await fresh(system="overlay")).sandbox, f"cat {name}")

    @pytest.mark.parametrize("kind", ["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"])
    async def test_commands_have_no_capabilities(self, sandbox: Sandbox, kind: str) -> None:
        assert int(await ok(sandbox, f"sed -n 's/^{kind}:\\s*//p' /proc/self/status"), 16) == 0

    async def test_commands_cannot_gain_privileges(self, sandbox: Sandbox) -> None:
        assert await ok(sandbox, "sed -n 's/^NoNewPrivs:\\s*//p' /proc/self/status") == "1\n"

    @pytest.mark.parametrize(
        "script",
        [
            "mount -t tmpfs none .",
            "mkdir over && mount --bind . over",
            "unshare -m true",
            "unshare -r -m mount -t tmpfs none .",
            "chroot / true",
            "mknod disk b 8 0",
            'hostname "$(hostname)"',
            ": > mine && chown 54321 mine",
        ],
    )
    async def test_what_only_an_administrator_may_do_fails(self, sandbox: Sandbox, place: str, script: str) -> None:
        await walled(sandbox)
        await fails(sandbox, f"cd {place} && {script}")

    async def test_there_are_no_disks_and_no_devices_of_the_host(self, sandbox: Sandbox) -> None:
        assert await ok(sandbox, "find /dev -type b 2>/dev/null; ls -d /dev/mem /dev/kvm /dev/fuse 2>/dev/null; true") == ""

    async def test_the_engines_socket_cannot_be_seen(self, sandbox: Sandbox) -> None:
        assert await ok(sandbox, "find /run /var/run -name '*docker*.sock' 2>/dev/null; true") == ""

    async def test_a_sandbox_sees_nothing_of_another(self, fresh: Maker) -> None:
        one, two = await fresh(), await fresh()
        name = f"check-{uuid.uuid4().hex}"
        command = await one.sandbox.start(CommandSpec(f"echo secret > {name}; echo secret > /tmp/{name}; exec sleep 600"))
        look = f"find / -name '{name}*' -not -path '/proc/*' 2>/dev/null; cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
        assert name in await ok(one.sandbox, look)
        seen = (await ok(two.sandbox, look)).replace(look, "").splitlines()
        assert not [line for line in seen if line.endswith(name)]
        assert "sleep 600" not in " ".join(seen)
        await command.kill()

    @pytest.mark.parametrize("how", ["upload", "upload_stream", "write", "edit", "delete"])
    async def test_a_link_out_of_the_workspace_changes_nothing_on_the_host(
        self, sandbox: Sandbox, place: str, tmp_path: Path, how: str
    ) -> None:
        victim = tmp_path / "victim"
        victim.write_text("untouched")
        await ok(sandbox, f"ln -s {shlex.quote(str(tmp_path))} {place}/link && ln -s {shlex.quote(str(victim))} {place}/file")
        for path in (f"{place}/link/victim", f"{place}/file", f"{place}/link/new"):
            if how == "upload":
                await sandbox.aupload_files([(path, b"owned")])
            elif how == "upload_stream":
                await _attempt(sandbox, path)
            elif how == "write":
                await sandbox.awrite(path, "owned")
            elif how == "edit":
                await sandbox.aedit(path, "untouched", "owned")
            else:
                await sandbox.adelete(path)
        assert victim.read_text() == "untouched"
        assert [path.name for path in tmp_path.iterdir()] == ["victim"]

    async def test_a_link_out_of_the_workspace_reads_nothing_of_the_host(
        self, sandbox: Sandbox, place: str, tmp_path: Path
    ) -> None:
        (tmp_path / "secret").write_text("host secret")
        await ok(sandbox, f"ln -s {shlex.quote(str(tmp_path))} {place}/link")
        path = f"{place}/link/secret"
        assert (await sandbox.aread(path)).error is not None
        assert [response.content for response in await sandbox.adownload_files([path])] == [None]
        with pytest.raises(OSError):
            await anext(sandbox.download_stream(path))
        assert not (await sandbox.agrep("host secret", f"{place}/link")).matches
        assert not (await sandbox.als(f"{place}/link")).entries

    async def test_tools_and_commands_are_the_same_user(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/uploaded", "x")
        assert (await sandbox.awrite(f"{place}/sub/written", "x")).error is None
        await ok(sandbox, f"cd {place} && [ -O uploaded ] && [ -O sub/written ] && rm uploaded sub/written && rmdir sub")
        await ok(sandbox, f"umask 077 && echo private > {place}/private")
        assert await get(sandbox, f"{place}/private") == b"private\n"

    async def test_the_programs_of_the_sandbox_run_at_all(self, sandbox: Sandbox) -> None:
        out, _, result = await finished(await sandbox.start(CommandSpec(["sh", "-c", "id -u; pwd; ls / > /dev/null"])))
        assert result.exit_code == 0
        assert out.decode().endswith(f"\n{sandbox.workdir}\n")


async def _attempt(sandbox: Sandbox, path: str) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield b"owned"

    async with asyncio.timeout(ANSWER_DEADLINE):
        try:
            await sandbox.upload_stream(path, content())
        except OSError:
            return
