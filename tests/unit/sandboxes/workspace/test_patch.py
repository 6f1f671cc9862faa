"""The patch of a workspace: what is asked of the sandbox, what is believed, and what is refused."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandboxes.errors import PatchRefused, SandboxTimeout
from sandboxes.workspace import patch as module
from sandboxes.workspace.manifest import EMPTY_FOLDER, FileEntry
from sandboxes.workspace.patch import capture, make_patch
from sandboxes.workspace.store import BlobStore
from sandboxes.workspace.tree import BaseTree, Node
from tests.unit.sandboxes.workspace.trees import (
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    Files,
    base_of,
    entry,
    fetch_from,
    git,
    manifest_of,
    read_files,
    served,
)

BEFORE: Files = {b"a.txt": (FILE, b"one\ntwo\n"), b"sub/run": (EXECUTABLE, b"#!/bin/sh\n"), b"l": (LINK, b"a.txt")}


async def test_an_unchanged_workspace_gives_no_patch_and_asks_for_nothing(tmp_path: Path) -> None:
    asked: list[str] = []
    assert await make_patch(base_of(BEFORE, tmp_path), manifest_of(BEFORE), fetch_from(BEFORE, asked)) == b""
    assert asked == []


async def test_only_what_is_not_in_the_base_is_fetched(tmp_path: Path) -> None:
    after: Files = {**BEFORE, b"new": (FILE, b"new"), b"copy": (FILE, b"one\ntwo\n"), b"a.txt": (EXECUTABLE, b"one\ntwo\n")}
    asked: list[str] = []
    await make_patch(base_of(BEFORE, tmp_path), manifest_of(after), fetch_from(after, asked))
    assert asked == ["new"]


async def test_the_patch_reads_as_git_would_write_it(tmp_path: Path) -> None:
    base = base_of(BEFORE, tmp_path)
    folder = tmp_path / "folder"
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "base")
    after: Files = {
        b"a.txt": (EXECUTABLE, b"one\n2\n"),
        b"with space": (FILE, b"x"),
        b"tab\t\xff": (FILE, b"x\n"),
        b"l": (LINK, b"sub"),
        b"empty": (FILE, b""),
    }

    patch = await make_patch(base, manifest_of(after), fetch_from(after))

    git(folder, "apply", "--index", "-", stdin=patch)
    assert read_files(folder) == after
    assert git(folder, "diff", "--cached", "--binary", "--full-index", "--no-renames") == patch


async def test_empty_folders_are_in_no_patch(tmp_path: Path) -> None:
    told = base_of({b"f": (FILE, b"x"), b"gone/f": (FILE, b"x")}, tmp_path)
    base = replace(
        told, entries={**told.entries, ".gitignore": Node(FOLDER, EMPTY_FOLDER, 0), "old": Node(FOLDER, EMPTY_FOLDER, 0)}
    )
    new: Files = {b"f": (FILE, b"x"), b"gone": (FOLDER, b""), b"new": (FOLDER, b"")}
    patch = await make_patch(base, manifest_of(new), fetch_from(new))
    assert re.findall(rb"^diff --git (.*)$", patch, re.MULTILINE) == [b"a/gone/f b/gone/f"]


async def test_a_file_cannot_pass_for_an_empty_folder_of_the_base(tmp_path: Path) -> None:
    told = base_of({b"f": (FILE, b"x")}, tmp_path)
    base = replace(told, entries={**told.entries, "old": Node(FOLDER, EMPTY_FOLDER, 0)})
    claimed = [*manifest_of({b"f": (FILE, b"x")}), FileEntry("old", FILE, 3, EMPTY_FOLDER)]
    patch = await make_patch(base, claimed, fetch_from({b"old": (FILE, b"new")}))
    assert b"+new" in patch


async def test_it_applies_in_a_repository_and_in_a_plain_folder_from_nothing(tmp_path: Path) -> None:
    base = BaseTree.empty(tmp_path / "store")
    patch = await make_patch(base, manifest_of(BEFORE), fetch_from(BEFORE))
    for name in ("plain", "repository"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "repository":
            git(folder, "init", "--quiet")
        git(folder, "apply", "-", stdin=patch)
        assert read_files(folder) == BEFORE


async def test_what_tools_leave_behind_and_gitignore_names_is_left_out(tmp_path: Path) -> None:
    before: Files = {
        b".gitignore": (FILE, b"*.log\nbuild/\n!kept.log\n"),
        b"sub/.gitignore": (FILE, b"/only-here\n"),
        b"tracked.log": (FILE, b"old"),
    }
    litter = [b"x.log", b"build/out", b"sub/only-here", b"p/__pycache__/m.pyc", b"node_modules/m/i.js", b"odd\xff.log"]
    work: Files = dict.fromkeys((b"tracked.log", b"kept.log", b"only-here", b"src/m.py"), (FILE, b"new"))
    after: Files = {**before, **work, **dict.fromkeys(litter, (FILE, b"litter"))}
    asked: list[str] = []

    patch = await make_patch(base_of(before, tmp_path), manifest_of(after), fetch_from(after, asked))

    assert sorted(asked) == ["kept.log", "only-here", "src/m.py", "tracked.log"]
    git(tmp_path / "folder", "apply", "-", stdin=patch)
    assert read_files(tmp_path / "folder") == {**before, **work}


async def test_a_lie_about_content_changes_only_the_liars_own_patch(tmp_path: Path) -> None:
    truth: Files = {**BEFORE, b"new": (FILE, b"what is really there")}
    lies = [replace(one, blob="ab" * 20, size=1) if one.path == "new" else one for one in manifest_of(truth)]
    base = base_of(BEFORE, tmp_path)
    git_tree = await capture(base, lies, fetch_from(truth))
    assert git_tree.id == (await capture(base, manifest_of(truth), fetch_from(truth))).id


async def test_a_blob_of_another_run_cannot_be_had_by_its_id(tmp_path: Path) -> None:
    base = base_of(BEFORE, tmp_path)
    secret = BlobStore(tmp_path / "store").put(b"of another run")
    lie = replace(entry(b"mine", FILE, b""), blob=secret)
    patch = await make_patch(base, [*manifest_of(BEFORE), lie], fetch_from({b"mine": (FILE, b"my own")}))
    assert b"+my own" in patch
    assert b"of another run" not in patch


@pytest.mark.parametrize("path", [".GIT/hooks/post-checkout", "sub/.Git/config", "a/git~1/x", ".git./x"])
async def test_a_change_that_git_would_take_for_its_own_is_refused(tmp_path: Path, path: str) -> None:
    base = base_of(BEFORE, tmp_path)
    base = replace(base, exclude=frozenset())
    files: Files = {**BEFORE, path.encode(): (FILE, b"x")}
    with pytest.raises(PatchRefused, match="Git keeps such names for itself"):
        await make_patch(base, manifest_of(files), fetch_from(files))


async def test_a_file_that_is_gone_when_it_is_fetched_is_gone(tmp_path: Path) -> None:
    entries = [*manifest_of(BEFORE), entry(b"fleeting", FILE, b"x")]
    assert await make_patch(base_of(BEFORE, tmp_path), entries, fetch_from(BEFORE)) == b""


async def test_a_stream_without_end_is_cut_at_the_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_CAP", 10_000)

    async def endless(_: str) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1000

    with pytest.raises(PatchRefused, match=r"'small' has more than .*outputs\.files"):
        await make_patch(BaseTree.empty(tmp_path / "store"), [entry(b"small", FILE, b"x")], served(endless))


async def test_a_file_that_has_grown_since_is_taken_as_it_is(tmp_path: Path) -> None:
    claimed = [entry(b"a", FILE, b"x"), entry(b"growing", FILE, b"x" * 9), entry(b"z", FILE, b"z")]
    now: Files = {b"a": (FILE, b"x"), b"growing": (FILE, b"y" * 100_000), b"z": (FILE, b"z")}
    tree = await capture(BaseTree.empty(tmp_path / "store"), claimed, fetch_from(now))
    assert {path: node.blob for path, node in tree.files.items()} == {one.path: one.blob for one in manifest_of(now)}


async def test_a_stream_that_stalls_ends_with_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEADLINE", 0.05)

    async def stalled(_: str) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    with pytest.raises(SandboxTimeout, match="did not give the contents"):
        await make_patch(BaseTree.empty(tmp_path / "store"), [entry(b"a", FILE, b"x")], served(stalled))


async def test_too_much_is_refused_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    base = BaseTree.empty(tmp_path / "store")
    with pytest.raises(PatchRefused, match="'huge' has more than 64 MiB"):
        await make_patch(base, [replace(entry(b"huge", FILE, b""), blob="ab" * 20, size=10**12)], fetch_from({}, asked))
    monkeypatch.setattr(module, "FETCH_CAP", 5)
    many: Files = {b"a": (FILE, b"123"), b"b": (FILE, b"456")}
    with pytest.raises(PatchRefused, match="together"):
        await make_patch(base, manifest_of(many), fetch_from(many, asked))
    assert asked == []


async def test_a_large_file_of_the_base_may_go_or_shrink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_CAP", 1000)
    large = os.urandom(5000)
    after: Files = {b"shrunk": (FILE, b"small\n" + bytes(range(200)))}
    base = base_of({b"gone": (FILE, large), b"shrunk": (FILE, large[::-1])}, tmp_path)

    patch = await make_patch(base, manifest_of(after), fetch_from(after))

    assert len(patch) < 2000
    git(tmp_path / "folder", "apply", "-", stdin=patch)
    assert read_files(tmp_path / "folder") == after


async def test_a_copy_of_a_large_file_of_the_base_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_CAP", 1000)
    files: Files = {b"large": (FILE, b"x" * 5000)}
    with pytest.raises(PatchRefused, match="'copy' has more than"):
        await make_patch(base_of(files, tmp_path), manifest_of({**files, b"copy": files[b"large"]}), fetch_from(files))


@pytest.mark.parametrize(
    ("target", "message"),
    [(None, "does not say where"), ("", "is empty"), ("a\0b", "NUL"), ("x" * 5000, "too long"), ("\ud800", "characters")],
)
async def test_a_link_without_a_target_that_can_be_is_refused(tmp_path: Path, target: str | None, message: str) -> None:
    link = replace(entry(b"l", LINK, b"x"), target=target)
    with pytest.raises(PatchRefused, match=message):
        await make_patch(BaseTree.empty(tmp_path / "store"), [link], fetch_from({}))


async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    async def denied(_: str) -> AsyncIterator[bytes]:
        raise PermissionError(13, "Permission denied")
        yield b""

    with pytest.raises(PatchRefused, match=r"cannot read 'a' in the sandbox.*Permission denied"):
        await make_patch(BaseTree.empty(tmp_path / "store"), [entry(b"a", FILE, b"x")], served(denied))
