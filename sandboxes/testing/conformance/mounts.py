"""Checks that mounts hold for tools and commands alike."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sandboxes.errors import FanfoldSandboxError
from sandboxes.sandbox import Sandbox
from sandboxes.testing.conformance.base import Checks, Maker, fails, get, ok, walled

SHARED = "/mnt/shared"


def fill(folder: Path) -> Path:
    """Put files there that anybody could change."""
    (folder / "sub").mkdir(parents=True)
    (folder / "file").write_text("of the host")
    (folder / "sub" / "inner").write_text("inner")
    for path, mode in ((folder, 0o777), (folder / "sub", 0o777), (folder / "file", 0o666)):
        path.chmod(mode)
    return folder


async def cannot_change(sandbox: Sandbox, path: str, beside: str) -> None:
    """Neither commands nor tools can change the file `path` or make the file `beside`."""
    for script in (f"echo x >> {path}", f"rm -f {path}", f"echo x > {beside}", f"mv {path} {path}.x", f"chmod 777 {path}"):
        await fails(sandbox, script)
    assert (await sandbox.awrite(beside, "x")).error is not None
    assert (await sandbox.aedit(path, "of the host", "changed")).error is not None
    assert (await sandbox.adelete(path)).error is not None
    responses = await sandbox.aupload_files([(path, b"x"), (beside, b"x")])
    assert all(response.error is not None for response in responses)

    async def content() -> AsyncIterator[bytes]:
        yield b"x"

    with pytest.raises(OSError):
        await sandbox.upload_stream(path, content())


class MountChecks(Checks):
    """Read-only and hidden places."""

    @pytest.fixture
    def source(self) -> Iterator[Path]:
        """A folder of the host that anybody could change, if the mount let them."""
        with tempfile.TemporaryDirectory(prefix="fanfold-check-") as folder:
            yield fill(Path(folder))

    async def test_a_folder_of_the_host_can_be_read_and_not_changed(self, fresh: Maker, source: Path) -> None:
        made = await fresh.or_refused(mounts=[{"target": SHARED, "source": str(source)}])
        if made is None:
            return
        assert await ok(made.sandbox, f"cat {SHARED}/file {SHARED}/sub/inner") == "of the hostinner"
        assert await get(made.sandbox, f"{SHARED}/file") == b"of the host"
        await cannot_change(made.sandbox, f"{SHARED}/file", f"{SHARED}/sub/new")
        assert (source / "file").read_text() == "of the host"
        assert sorted(path.name for path in source.rglob("*")) == ["file", "inner", "sub"]

    async def test_a_single_file_of_the_host_can_be_read_and_not_changed(self, fresh: Maker, source: Path) -> None:
        made = await fresh.or_refused(mounts=[{"target": "/mnt/one", "source": str(source / "file")}])
        if made is None:
            return
        assert await get(made.sandbox, "/mnt/one") == b"of the host"
        await fails(made.sandbox, "echo x >> /mnt/one")
        assert (await made.sandbox.aedit("/mnt/one", "of the host", "changed")).error is not None
        assert (source / "file").read_text() == "of the host"

    async def test_a_mount_below_the_working_directory_is_closed_and_the_rest_is_open(
        self, fresh: Maker, source: Path
    ) -> None:
        target = f"{self.spec.workdir}/vendor"
        made = await fresh.or_refused(mounts=[{"target": target, "source": str(source)}])
        if made is None:
            return
        await cannot_change(made.sandbox, f"{target}/file", f"{target}/new")
        assert (await made.sandbox.awrite("open", "x")).error is None
        await fails(made.sandbox, "mv vendor moved")
        await made.sandbox.adelete(target)
        assert await get(made.sandbox, f"{target}/file") == b"of the host"

    async def test_a_hidden_place_can_be_neither_read_nor_changed(self, fresh: Maker) -> None:
        made = await fresh.or_refused(mounts=[{"target": "/usr/share", "mode": "hidden"}])
        if made is None:
            return
        assert await ok(made.sandbox, "ls -A /usr/share 2>/dev/null; cat /usr/share/*/* 2>/dev/null; true") == ""
        assert not (await made.sandbox.als("/usr/share")).entries
        assert (await made.sandbox.aread("/usr/share/common-licenses/GPL-3")).error is not None
        assert not (await made.sandbox.aglob("**", "/usr/share")).matches
        await fails(made.sandbox, "echo x > /usr/share/new")
        assert (await made.sandbox.awrite("/usr/share/new", "x")).error is not None

    async def test_a_hidden_file_can_be_neither_read_nor_changed(self, fresh: Maker) -> None:
        made = await fresh.or_refused(mounts=[{"target": "/etc/passwd", "mode": "hidden"}])
        if made is None:
            return
        await walled(made.sandbox)
        assert await ok(made.sandbox, "cat /etc/passwd 2>/dev/null; true") == ""
        read = await made.sandbox.aread("/etc/passwd")
        assert read.error is not None or read.file_data is None or read.file_data["content"] == ""
        await made.sandbox.aexecute("echo x >> /etc/passwd")
        assert (await made.sandbox.aupload_files([("/etc/passwd", b"x")]))[0].error is not None
        assert await ok(made.sandbox, "cat /etc/passwd 2>/dev/null; true") == ""

    async def test_a_later_mount_lies_over_an_earlier_one(self, fresh: Maker, source: Path) -> None:
        mounts = [
            {"target": SHARED, "source": str(source)},
            {"target": f"{SHARED}/sub", "mode": "hidden"},
        ]
        made = await fresh.or_refused(mounts=mounts)
        if made is None:
            return
        assert await ok(made.sandbox, f"cat {SHARED}/file; ls -A {SHARED}/sub 2>/dev/null; true") == "of the host"
        assert (await made.sandbox.aread(f"{SHARED}/sub/inner")).error is not None

    async def test_a_folder_that_only_its_owner_can_reach_can_be_mounted(self, fresh: Maker, source: Path) -> None:
        (source / "private").mkdir(mode=0o700)
        inner = fill(source / "private" / "inner")
        made = await fresh.or_refused(mounts=[{"target": SHARED, "source": str(inner)}])
        if made is not None:
            assert await get(made.sandbox, f"{SHARED}/file") == b"of the host"

    async def test_mounts_hold_for_every_client(self, fresh: Maker, source: Path) -> None:
        made = await fresh.or_refused(mounts=[{"target": SHARED, "source": str(source)}])
        if made is None:
            return
        clients = [await fresh.attach(made.handle) for _ in range(2)]
        results = await asyncio.gather(*(client.awrite(f"{SHARED}/new", "x") for client in clients))
        assert all(result.error is not None for result in results)

    async def test_a_mount_of_what_is_missing_fails_and_leaves_nothing(self, fresh: Maker, source: Path) -> None:
        with pytest.raises(FanfoldSandboxError):
            await fresh(mounts=[{"target": SHARED, "source": str(source / "missing")}])
        assert await fresh.provider.find(fresh.labels) == []
