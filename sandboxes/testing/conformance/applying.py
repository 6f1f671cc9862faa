"""Checks of edits: all of them are done or none, once, whoever is killed and whatever is in the way."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from collections.abc import Mapping

import pytest

from sandboxes.errors import SandboxError
from sandboxes.sandbox import Applied, Edit, FileEntry, Sandbox
from sandboxes.testing.conformance import elsewhere
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, Made, Maker, ProviderFactory, exists, ok, walled
from sandboxes.testing.conformance.names import NAMES
from sandboxes.workspace.changes import difference

BEFORE = """
mkdir -p d/in/deep e f/g empty
for one in file d/a d/in/b d/in/deep/c e/a f/a f/g/b same mode; do echo "$one" > $one; done
ln -s d link
ln -s nowhere dangling
chmod 600 same
"""
STEPS = {
    "files": "echo x > new; mkdir -p new2/in; echo y > new2/in/y; echo more >> d/a; rm d/in/b; : > nothing",
    "modes": "chmod 755 mode; echo x > run; chmod 755 run",
    "links": "ln -sfn e link; ln -s 'a b' other; rm dangling",
    "a removed folder": "rm -r d",
    "an emptied folder": "rm -r d/in/*",
    "empty folders": "mkdir -p d/new/in; rmdir empty",
    "a file in an empty folder": "echo > empty/x",
    "a file in place of a folder": "rm -r d; echo > d",
    "a file in place of an empty folder": "rmdir empty; echo > empty",
    "a folder in place of a file": "rm file; mkdir -p file/in; echo > file/in/x",
    "an empty folder in place of a file": "rm file; mkdir file",
    "a link in place of a folder": "rm -r d; ln -s e d",
    "a folder in place of a link": "rm link; mkdir -p link/in; echo > link/in/a",
    "renames": "mv f h; mv e f; mv file d/a",
    "nothing": "true",
}
"""What has been done elsewhere, and is to be done to the files of `BEFORE`."""
MANY = 200
"""Edits of those who are killed while they wait for them."""
MOMENTS = [0.0, 0.02, 0.05, 0.1, 0.2, 0.4]
"""Seconds after which they are."""


async def everything(sandbox: Sandbox, root: str) -> dict[str, FileEntry]:
    """All that is below a folder, by path."""
    return {entry.path: entry for entry in await sandbox.manifest(root, folders=True)}


def blob(content: bytes) -> str:
    """Git's id of a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def to_file(path: str, content: bytes, before: FileEntry | None = None) -> Edit:
    """A file that is to be there."""
    return Edit(path, before, FileEntry(path, "100644", len(content), blob(content)))


def of(*contents: bytes) -> Mapping[str, bytes]:
    """Contents by their ids."""
    return {blob(content): content for content in contents}


async def edits_between(sandbox: Sandbox, before: str, after: str) -> tuple[list[Edit], dict[str, bytes]]:
    """What makes one folder like another, and the contents that it takes."""
    base, wanted = await everything(sandbox, before), await everything(sandbox, after)
    changed = difference(base, wanted.values(), folders=True)
    edits = [Edit(entry.path, base.get(entry.path), entry) for entry in changed.entries]
    edits += [Edit(path, base[path], None) for path in changed.removed]
    contents = {blob(target := (one.target or "").encode()): target for one in changed.entries}
    files = [entry for entry in changed.entries if entry.mode.startswith("100")]
    for entry, response in zip(
        files, await sandbox.adownload_files([f"{after}/{entry.path}" for entry in files]), strict=True
    ):
        assert response.content is not None
        contents[entry.blob] = response.content
    return edits, contents


async def left_over(sandbox: Sandbox, place: str) -> str:
    """Whatever of ours is still in a folder."""
    return await ok(sandbox, f"find {place} -name '.fanfold*'")


class ApplyChecks(Checks):
    """Edits of many files."""

    async def test_apply_makes_one_state_of_another_and_doing_it_twice_changes_nothing(
        self, sandbox: Sandbox, place: str
    ) -> None:
        for number, script in enumerate(STEPS.values()):
            old, new = f"{place}/{number}", f"{place}/{number}-new"
            await ok(sandbox, f"mkdir {old}; cd {old}; {BEFORE} cp -a {old} {new}; cd {new}; {script}")
        for number, step in enumerate(STEPS):
            old, new = f"{place}/{number}", f"{place}/{number}-new"
            edits, contents = await edits_between(sandbox, old, new)
            for attempt in range(2):
                done = await sandbox.apply(old, edits, contents.__getitem__, call_id=f"{place}/{number}/{attempt}")
                assert done == Applied(), step
                assert await everything(sandbox, old) == await everything(sandbox, new), step
        assert await left_over(sandbox, place) == ""

    async def test_apply_keeps_the_permissions_that_a_file_has(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && echo x > a && cp a b && cp a c && chmod 640 a && chmod 444 b && chmod 750 c")
        base = await everything(sandbox, place)
        edits = [
            to_file("a", b"new", base["a"]),
            Edit("b", base["b"], FileEntry("b", "100755", 3, blob(b"new"))),
            to_file("c", b"new", base["c"]),
            to_file("d", b"new"),
        ]
        assert await sandbox.apply(place, edits, of(b"new").__getitem__, call_id=place) == Applied()
        assert await ok(sandbox, f"cd {place} && stat -c '%n %a' *") == "a 640\nb 555\nc 640\nd 644\n"
        assert await ok(sandbox, f"cd {place} && cat *") == "newnewnewnew"

    async def test_apply_takes_names_and_contents_of_any_kind(self, sandbox: Sandbox, place: str) -> None:
        contents = [name.encode("utf-8", "surrogateescape") * 3000 for name in NAMES.values()]
        edits = [to_file(f"{name}/{name}", content) for name, content in zip(NAMES.values(), contents, strict=True)]
        edits += [Edit(f"to-{name}", None, FileEntry("", "120000", 0, blob(name.encode("utf-8", "surrogateescape"))))
                  for name in NAMES.values() if len(name) < 80]  # fmt: skip
        targets = [name.encode("utf-8", "surrogateescape") for name in NAMES.values()]
        assert await sandbox.apply(place, edits, of(*contents, *targets).__getitem__, call_id=place) == Applied()
        found = await everything(sandbox, place)
        assert {path: entry.blob for path, entry in found.items()} == {
            edit.path: edit.after.blob for edit in edits if edit.after is not None
        }
        back = [Edit(entry.path, entry, None) for entry in found.values()]
        assert await sandbox.apply(place, back, of().__getitem__, call_id=f"{place}/back") == Applied()
        assert await ok(sandbox, f"ls -A {place}") == ""

    async def test_apply_changes_nothing_when_anything_was_changed_meanwhile(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && {BEFORE}")
        base = await everything(sandbox, place)
        edits = [
            *(to_file(path, b"ours", base[path]) for path in ("file", "mode", "same", "e/a")),
            *(Edit(path, base[path], None) for path in ("d/a", "d/in/b", "d/in/deep/c", "f/a", "f/g/b", "link")),
            to_file("d", b"ours"),
            to_file("new", b"ours"),
        ]
        await ok(
            sandbox,
            f"cd {place} && echo theirs > file && chmod 755 mode && rm -r e && ln -s . e && mkfifo new && echo > d/theirs"
            " && rm link && ln -s e link && rm -r f && mkdir f",
        )
        before = await everything(sandbox, place)
        refused = {"file", "mode", "e/a", "new", "link", "d"}
        done = await sandbox.apply(place, edits, of(b"ours").__getitem__, call_id=place)
        assert set(done.refused) == refused or set(done.refused) == refused - {"d"}  # not all need to be looked at
        assert await everything(sandbox, place) == before
        assert await left_over(sandbox, place) == ""
        assert await sandbox.apply(place, edits, of(b"ours").__getitem__, call_id=place) == done

    async def test_apply_refuses_a_file_in_place_of_a_folder_with_something_else_in_it(
        self, sandbox: Sandbox, place: str
    ) -> None:
        await ok(sandbox, f"cd {place} && {BEFORE} mkdir -m 700 d/in/mine; mkfifo d/in/pipe")
        base = await everything(sandbox, place)
        edits = [Edit(path, base[path], None) for path in ("d/a", "d/in/b", "d/in/deep/c")]
        done = await sandbox.apply(place, [*edits, to_file("d", b"ours")], of(b"ours").__getitem__, call_id=place)
        assert done == Applied(("d",))
        assert await everything(sandbox, place) == base
        assert await ok(sandbox, f"cd {place} && stat -c %a d/in/mine && [ -p d/in/pipe ] && echo pipe") == "700\npipe\n"

    async def test_apply_follows_no_link(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"mkdir {place}/out {place}/root && cd {place}/root && ln -s ../out up && echo x > ../out/x")
        out = await everything(sandbox, f"{place}/out")
        edits = [to_file("up/new", b"ours"), Edit("up/x", out["x"], None), to_file("fine", b"ours")]
        done = await sandbox.apply(f"{place}/root", edits, of(b"ours").__getitem__, call_id=place)
        assert set(done.refused) == {"up/new", "up/x"}
        assert await everything(sandbox, f"{place}/out") == out
        assert await ok(sandbox, f"ls {place}/root") == "up\n"

    async def test_apply_leaves_everything_as_it_was_when_the_file_system_refuses_a_part(
        self, sandbox: Sandbox, place: str
    ) -> None:
        await ok(sandbox, f"cd {place} && {BEFORE} chmod 555 f")
        base = await everything(sandbox, place)
        edits = [
            *(Edit(path, base[path], None) for path in ("d/a", "d/in/b", "d/in/deep/c", "e/a")),
            to_file("d", b"ours"),
            to_file("e/new/x", b"ours"),
            to_file("file", b"ours", base["file"]),
            to_file("f/new", b"ours"),
        ]
        with pytest.raises(PermissionError, match="f/new"):
            await sandbox.apply(place, edits, of(b"ours").__getitem__, call_id=place)
        assert await everything(sandbox, place) == base
        assert await left_over(sandbox, place) == ""
        await ok(sandbox, f"chmod 755 {place}/f")
        assert await sandbox.apply(place, edits, of(b"ours").__getitem__, call_id=place) == Applied()
        assert {*await everything(sandbox, place)} >= {"d", "e/new/x", "f/new"}

    async def test_apply_on_a_full_disk_changes_nothing(self, fresh: Maker) -> None:
        made = await fresh.or_refused(resources={"disk": "32MiB"})
        if made is None:
            return
        root = f"{made.sandbox.workdir}/root"
        await ok(made.sandbox, f"mkdir {root} && cd {root} && {BEFORE} head -c 30000000 /dev/urandom > ../large")
        base = await everything(made.sandbox, root)
        large = bytes(range(256)) * 16 * 1024
        edits = [to_file("file", large, base["file"]), Edit("d/a", base["d/a"], None)]
        with pytest.raises((OSError, SandboxError)):
            await made.sandbox.apply(root, edits, of(large).__getitem__, call_id="full")
        assert await everything(made.sandbox, root) == base

    @pytest.mark.parametrize("path", ["../x", "/x", "a//b", "", ".", ".fanfold-apply-x/y"])
    async def test_apply_of_a_path_that_cannot_be_is_an_error(self, sandbox: Sandbox, place: str, path: str) -> None:
        with pytest.raises(ValueError, match="an edit of"):
            await sandbox.apply(place, [to_file(path, b"x")], of(b"x").__getitem__, call_id=place)

    async def test_apply_of_edits_that_contradict_each_other_is_an_error(self, sandbox: Sandbox, place: str) -> None:
        for other in ("a", "a/b"):
            with pytest.raises(ValueError, match="'a'"):
                await sandbox.apply(place, [to_file("a", b"x"), to_file(other, b"x")], of(b"x").__getitem__, call_id=place)

    async def test_a_content_that_is_not_what_was_announced_is_not_applied(self, sandbox: Sandbox, place: str) -> None:
        with pytest.raises(OSError, match="new"):
            await sandbox.apply(place, [to_file("new", b"x")], lambda blob: b"another", call_id=place)
        assert await ok(sandbox, f"ls -A {place}") == ""

    async def test_what_others_left_of_an_apply_is_removed_or_put_back_and_never_told(
        self, sandbox: Sandbox, place: str
    ) -> None:
        left = shlex.quote(f"{place}/.fanfold-apply-0123456789abcdef")
        await ok(sandbox, f"mkdir -p {left}/new {left}/old && echo x > {left}/new/0 && echo x > {place}/file")
        assert [*await everything(sandbox, place)] == ["file"]
        assert await sandbox.apply(place, [to_file("new", b"x")], of(b"x").__getitem__, call_id=place) == Applied()
        assert await left_over(sandbox, place) == ""

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_apply_goes_to_its_end_once_though_its_caller_was_killed(
        self, shared: Made, provider_factory: ProviderFactory, place: str, moment: float
    ) -> None:
        sandbox = shared.sandbox
        await ok(sandbox, f"cd {place} && for one in $(seq {MANY}); do echo old > $one; done")
        base = await everything(sandbox, place)
        job = elsewhere.Job(shared.handle.to_json(), "apply", {"root": place, "call_id": place})
        process = await elsewhere.begin(provider_factory, job)
        assert process.stdout is not None
        async with asyncio.timeout(ANSWER_DEADLINE):
            await process.stdout.readline()
        await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=moment)
        if process.returncode is None:
            process.kill()
        await process.wait()
        edits = [to_file(path, b"new", entry) for path, entry in base.items()]
        async with asyncio.timeout(4 * ANSWER_DEADLINE):
            assert await sandbox.apply(place, edits, of(b"new").__getitem__, call_id=place) == Applied()
        assert {entry.blob for entry in (await everything(sandbox, place)).values()} == {blob(b"new")}
        assert await left_over(sandbox, place) == ""

    async def test_apply_that_everything_is_killed_under_ends_in_all_or_nothing(self, fresh: Maker) -> None:
        made = await fresh()
        await walled(made.sandbox)
        root = f"{made.sandbox.workdir}/root"
        await ok(made.sandbox, f"mkdir {root} && cd {root} && for one in $(seq {MANY}); do echo old > $one; done")
        base = await everything(made.sandbox, root)
        edits = [to_file(path, b"new", entry) for path, entry in base.items()]
        applying = asyncio.create_task(made.sandbox.apply(root, edits, of(b"new").__getitem__, call_id="killed"))
        try:
            await made.sandbox.aexecute(f"until [ -e {root}/.fanfold-apply-*/plan ]; do :; done; kill -9 -1", timeout=5)
        except SandboxError as exc:
            assert str(exc)
        await asyncio.wait([applying], timeout=2 * ANSWER_DEADLINE)
        applying.cancel()
        await asyncio.gather(applying, return_exceptions=True)
        try:
            again = await fresh.attach(made.handle)
            assert await again.apply(root, edits, of(b"new").__getitem__, call_id="killed") == Applied()
        except SandboxError as exc:
            assert str(exc)  # it is gone, with all that was in it
            return
        assert {entry.blob for entry in (await everything(again, root)).values()} == {blob(b"new")}
        assert not await exists(again, f"{root}/.fanfold-apply-*")
