"""Checks of what a sandbox says was changed: the same as two manifests say, whatever was done and wherever it began."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from sandboxes.errors import InvalidSpec
from sandboxes.providers.base import SandboxHandle
from sandboxes.sandbox import Changed, FileEntry, Sandbox
from sandboxes.testing.conformance.base import Checks, Maker, ok, put
from sandboxes.testing.conformance.names import NAMES
from sandboxes.workspace.changes import difference

BEFORE = """
mkdir -p d/in/deep e f/g empty closed caches
for one in file d/a d/in/b d/in/deep/c e/a f/a f/g/b same mode caches/x; do echo "$one" > $one; done
ln -s d link
ln -s nowhere dangling
"""
STEPS = {
    "nothing": ("true", ""),
    "a new file": ("echo x > d/in/new", "+d/in/new"),
    "other content": ("echo x >> d/in/deep/c", "+d/in/deep/c"),
    "the same content again": ("echo x > same; echo same > same; touch d/a; cp -p e/a x; mv x e/a", ""),
    "a mode": ("chmod 755 mode", "+mode"),
    "another permission": ("chmod 600 mode", ""),
    "a removed file": ("rm d/in/b", "-d/in/b"),
    "a removed folder": ("rm -r d", "-d/a -d/in/b -d/in/deep/c"),
    "a folder made anew": ("rm -r d; mkdir d; echo x > d/x", "+d/x -d/a -d/in/b -d/in/deep/c"),
    "a folder made anew with the same in it": ("cp -r d d2; rm -r d; mv d2 d", ""),
    "a folder that is emptied": ("rm -r d/in/*", "+d/in -d/in/b -d/in/deep/c"),
    "a folder in an empty one": ("mkdir empty/in", "+empty/in -empty"),
    "a file in an empty folder": ("echo > empty/x", "+empty/x -empty"),
    "an empty folder": ("mkdir d/new; rmdir empty", "+d/new -empty"),
    "a file in place of a folder": ("rm -r d; echo > d", "+d -d/a -d/in/b -d/in/deep/c"),
    "a folder in place of a file": ("rm file; mkdir file; echo > file/x", "+file/x -file"),
    "an empty folder in place of a file": ("rm file; mkdir file", "+file"),
    "a link in place of a folder": ("rm -r d; ln -s e d", "+d -d/a -d/in/b -d/in/deep/c"),
    "a folder in place of a link": ("rm link; mkdir -p link/in; echo > link/in/a", "+link/in/a -link"),
    "a link that leads elsewhere": ("ln -sfn e link", "+link"),
    "a pipe in place of a file": ("rm file; mkfifo file", "-file"),
    "a pipe in place of all that is in a folder": ("rm -r f/g; mkfifo f/g", "-f/g/b"),
    "a renamed folder": ("mv f h", "+h/a +h/g/b -f/a -f/g/b"),
    "a renamed folder with another in its place": ("mv f h; mv e f", "+h/a +h/g/b -e/a -f/g/b +f/a"),
    "a file that is renamed onto another": ("mv file d/a", "+d/a -file"),
    "a hard link": ("ln file d/hard", "+d/hard"),
    "what is left out": ("echo > d/caches; echo x > caches/x; mkdir e/caches; echo > e/caches/y; rm d/caches", ""),
    "the staging of edits": ("mkdir .fanfold-apply-x d/.fanfold-apply-y; echo > .fanfold-apply-x/file", ""),
}
"""What is done in a sandbox, and what has changed then."""


async def told(sandbox: Sandbox, base: Mapping[str, FileEntry], root: str = "") -> Changed:
    """What the sandbox says has changed: which is what a look at everything says."""
    place = root or sandbox.workdir
    changed = await sandbox.changes(place, base, exclude=["caches"], folders=True)
    now = await sandbox.manifest(place, exclude=["caches"], folders=True)
    assert changed == difference(base, now, folders=True)
    plain = await sandbox.changes(place, base, exclude=["caches"])
    assert plain == difference(base, await sandbox.manifest(place, exclude=["caches"]))
    return changed


async def everything(sandbox: Sandbox, root: str = "") -> dict[str, FileEntry]:
    """The base of what is changed later."""
    entries = await sandbox.manifest(root or sandbox.workdir, exclude=["caches"], folders=True)
    return {entry.path: entry for entry in entries}


def names(changed: Changed) -> set[str]:
    """Paths: + what is new or different, - what is gone."""
    return {f"+{entry.path}" for entry in changed.entries} | {f"-{path}" for path in changed.removed}


class ChangeChecks(Checks):
    """What is not as it was."""

    async def test_a_fork_tells_what_was_changed_in_it(self, fresh: Maker) -> None:
        parent = await fresh()
        for number in range(len(STEPS)):
            await ok(parent.sandbox, f"mkdir {number}; cd {number}; {BEFORE}")
        base = await everything(parent.sandbox)
        [child] = await fresh.fork(parent.handle)
        sandbox = await fresh.attach(child)
        assert await told(sandbox, base) == Changed()
        for number, (script, _) in enumerate(STEPS.values()):
            await ok(sandbox, f"cd {number}; {script}")
        assert names(await told(sandbox, base)) == {
            f"{one[0]}{number}/{one[1:]}" for number, (_, told) in enumerate(STEPS.values()) for one in told.split()
        }

    @pytest.mark.parametrize("seed", range(3))
    async def test_whatever_is_changed_in_forks_of_forks_each_tells_it_of_its_own(self, fresh: Maker, seed: int) -> None:
        chance = random.Random(seed)
        made = await fresh()
        await ok(made.sandbox, BEFORE)
        handle, sandbox = made.handle, made.sandbox
        for _ in range(3):
            base = await everything(sandbox)
            [handle] = await fresh.fork(handle)
            sandbox = await fresh.attach(handle)
            for _ in range(2):
                await sandbox.aexecute("; ".join(script for script, _ in chance.sample(list(STEPS.values()), 3)))
                await told(sandbox, base)

    async def test_a_sandbox_that_is_no_fork_tells_its_changes_too(self, fresh: Maker) -> None:
        made = await fresh()
        await ok(made.sandbox, BEFORE)
        base = await everything(made.sandbox)
        assert await told(made.sandbox, base) == Changed()
        scripts = [script for script, _ in STEPS.values()]
        for at in range(0, len(scripts), 9):
            await made.sandbox.aexecute("; ".join(scripts[at : at + 9]))
            await told(made.sandbox, base)
        assert names(await told(made.sandbox, {})) == {f"+{path}" for path in await everything(made.sandbox)}

    async def test_the_changes_below_a_folder_are_told_from_there(self, fresh: Maker) -> None:
        parent = await fresh()
        await ok(parent.sandbox, BEFORE)
        base = await everything(parent.sandbox, f"{parent.sandbox.workdir}/d/in")
        [child] = await fresh.fork(parent.handle)
        sandbox = await fresh.attach(child)
        assert await told(sandbox, base, f"{sandbox.workdir}/d/in") == Changed()
        await ok(sandbox, "echo x > d/a; echo x > d/in/new; rm d/in/b")
        assert names(await told(sandbox, base, f"{sandbox.workdir}/d/in")) == {"+new", "-b"}
        await ok(sandbox, "mv d e/d; ln -s e/d d")
        assert names(await told(sandbox, base, f"{sandbox.workdir}/d/in")) == {"+new", "-b"}
        with pytest.raises(OSError, match="nowhere"):
            await sandbox.changes(f"{sandbox.workdir}/nowhere", base)

    async def test_changes_of_names_of_any_kind_are_told(self, fresh: Maker) -> None:
        parent = await fresh()
        for number, name in enumerate(NAMES.values()):
            await put(parent.sandbox, f"{parent.sandbox.workdir}/{number}/{name}", b"x")
            await put(parent.sandbox, f"{parent.sandbox.workdir}/{name}/in", b"x")
        base = await everything(parent.sandbox)
        [child] = await fresh.fork(parent.handle)
        sandbox = await fresh.attach(child)
        for number, name in enumerate(NAMES.values()):
            await put(sandbox, f"{sandbox.workdir}/{number}/{name}", b"y")
            assert (await sandbox.adelete(f"{sandbox.workdir}/{name}/in")).error is None
        changed = await told(sandbox, base)
        assert {entry.path for entry in changed.entries} == {
            one for number, name in enumerate(NAMES.values()) for one in (f"{number}/{name}", name)
        }
        assert set(changed.removed) == {f"{name}/in" for name in NAMES.values()}

    @pytest.mark.parametrize("mode", ["hidden", "read-only"])
    async def test_what_a_mount_closes_is_not_changed(self, fresh: Maker, mode: str) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "mkdir -p closed/in; echo x > closed/in/x; echo x > other")
        base = await everything(parent.sandbox)
        spec = fresh.variant(mounts=[{"target": f"{parent.sandbox.workdir}/closed", "mode": mode}])
        if (await fresh.provider.capabilities()).missing(spec):
            return
        try:
            [child] = await fresh.provider.fork(parent.handle, 1, spec=spec, labels=fresh.labels)
        except InvalidSpec:
            return  # this provider closes no folder of the workspace in this way, and says so
        if isinstance(child, InvalidSpec):
            return
        assert isinstance(child, SandboxHandle), child
        sandbox = await fresh.attach(child)
        await ok(sandbox, "echo y > other")
        assert names(await sandbox.changes(sandbox.workdir, base, folders=True)) == {"+other"}

    async def test_changes_of_files_that_are_held_in_memory_are_told(self, fresh: Maker) -> None:
        parent = await fresh.or_refused(resources={"disk": "64MiB"})
        if parent is None:
            return
        await ok(parent.sandbox, BEFORE)
        base = await everything(parent.sandbox)
        [child] = await fresh.fork(parent.handle)
        sandbox = await fresh.attach(child)
        await ok(sandbox, "rm -r d; mkdir d; echo x > d/x; chmod 755 mode")
        assert names(await told(sandbox, base)) == {"+d/x", "-d/a", "-d/in/b", "-d/in/deep/c", "+mode"}

    async def test_empty_folders_are_told_only_to_who_asks(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir -p a/b/c d/e f/skip left && echo > d/x && mkfifo left/pipe")
        entries = await sandbox.manifest(place, exclude=["skip"], folders=True)
        empty = [(entry.path, entry.mode, entry.size) for entry in entries if entry.path != "d/x"]
        assert empty == [(path, "040000", 0) for path in ("a/b/c", "d/e", "f", "left")]
        assert {entry.blob for entry in entries if entry.path != "d/x"} == {"4b825dc642cb6eb9a060e54bf8d69288fbee4904"}
        assert [entry.path for entry in await sandbox.manifest(place, exclude=["skip"])] == ["d/x"]
