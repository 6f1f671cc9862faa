"""`python -m benchmarks.changes`: from forks that have changed files to the merged tree, beside `git merge-tree` and a tar."""

from __future__ import annotations

import asyncio
import posixpath
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from benchmarks.measure import Config, Row, run, seconds, sound
from benchmarks.merge import Size, World, any_of
from orchestrator.worker.fanout.base import Base
from sandboxes.errors import FanfoldSandboxError
from sandboxes.providers.base import SandboxHandle, SandboxSpec
from sandboxes.providers.local import LocalProvider
from sandboxes.sandbox import CommandSpec, Sandbox
from sandboxes.workspace.fetching import Files
from sandboxes.workspace.merge import Child, merge
from sandboxes.workspace.pack import pack
from sandboxes.workspace.packed import read_pack

AT_MOST = 1.5
"""How often the time of `git merge-tree` all of ours may take, beside what a tar of the changed files takes."""
CAP = 1024**3
"""Bytes of what a child changed."""
PIECE = 1024 * 1024
TOGETHER = 8
"""Children that end at the same time, and whose changes are fetched at once."""


async def bench(config: Config) -> list[Row]:
    """Real forks of a local sandbox, some at a time: they take turns with the tars of the same files."""
    size = Size(1000, 5, 20) if config.quick else Size()
    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        place = Path(folder)
        (place / "world").mkdir()
        try:
            return await _Forks(place, World(place / "world", size, any_of)).rows(size)
        except FanfoldSandboxError as exc:
            raise SystemExit(f"benchmarks: no local sandbox can be made here: {exc}") from exc


class _Forks:
    """A sandbox with the files of a world, and forks of it with what its children changed."""

    def __init__(self, place: Path, world: World) -> None:
        self._place = place
        self._world = world
        self._provider = LocalProvider(place / "home")
        self._packing = self._transfer = 0.0

    async def rows(self, size: Size) -> list[Row]:
        """The sums of all children, and the one merge."""
        parent = await self._provider.create(SandboxSpec())
        try:
            async with await self._provider.attach(parent) as sandbox:
                await self._fill(sandbox)
                base = await Base.of(sandbox, ())
            children = list(self._world.children)
            while children:
                await self._measure(parent, base, children[:TOGETHER])
                del children[:TOGETHER]
        finally:
            await self._provider.destroy(parent)
        merging = await seconds(self._merged)
        peer = await seconds(self._world.peer)
        what = f"{size.children} x {size.changed} of {size.files}"
        most = AT_MOST * peer + self._transfer
        return [
            Row(f"{what}, changes / tar", "s", self._packing, self._transfer),
            Row(f"{what}, merge / git merge-tree", "s", merging, peer),
            Row(f"{what}, both", "s", self._packing + merging, below=round(most, 2)),
        ]

    async def _fill(self, sandbox: Sandbox) -> None:
        await sandbox.upload_stream("/tmp/base.tar", _read(self._place / "world" / "base.tar"))
        sound(await sandbox.aexecute(f"tar -xf /tmp/base.tar -C {sandbox.workdir}"))

    async def _measure(self, parent: SandboxHandle, base: Base, children: Sequence[Child]) -> None:
        """Fetch what these children have changed in both ways."""
        async with AsyncExitStack() as stack:
            forks = []
            for made in await self._provider.fork(parent, len(children)):
                assert isinstance(made, SandboxHandle), made
                stack.push_async_callback(self._provider.destroy, made)
                forks.append(await stack.enter_async_context(await self._provider.attach(made)))
            each = list(zip(forks, children, strict=True))
            await asyncio.gather(*(_change(*one) for one in each))
            self._packing += await seconds(lambda: _all(self._packed(sandbox, base, child.name) for sandbox, child in each))
            self._transfer += await seconds(lambda: _all(self._tar(sandbox, child) for sandbox, child in each))

    async def _packed(self, sandbox: Sandbox, base: Base, name: str) -> None:
        changed = await sandbox.changes(sandbox.workdir, base.entries, exclude=base.exclude, folders=True)
        files = Files(sandbox, sandbox.workdir)
        await pack(changed.entries, changed.removed, files, self._place / name, base=base.id, cap=CAP)

    async def _tar(self, sandbox: Sandbox, child: Child) -> None:
        """The least that brings the same bytes: their paths are known, and nothing is checked."""
        command = await sandbox.start(CommandSpec(["tar", "-cf", "-", "-C", sandbox.workdir, *child.changes]))
        with (self._place / f"{child.name}.tar").open("wb") as file:
            async for chunk in command.output():
                file.write(chunk.data)
        sound(await command.wait())

    def _merged(self) -> None:
        children = []
        for child in self._world.children:
            packed = read_pack(self._place / child.name, self._place / f"{child.name}.objects")
            if packed.changes != child.changes:
                raise RuntimeError(f"the changes of {child.name} were not found as they are")
            children.append(Child(child.name, packed.changes, packed.contents))
        merge(self._world.base, children)


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*work)


async def _change(sandbox: Sandbox, child: Child) -> None:
    files = [(path, node) for path, node in child.changes.items() if node is not None]
    contents = [(posixpath.join(sandbox.workdir, path), child.contents.get(node.blob)) for path, node in files]
    sound(await sandbox.aupload_files(contents))


async def _read(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece


BENCH = {"local: changes of forks and their merge / git merge-tree and a tar": bench}

if __name__ == "__main__":
    run(BENCH)
