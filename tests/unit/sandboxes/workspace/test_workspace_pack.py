"""What a sandbox changed as one file: what it says, what it refuses, and that nobody is led out of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import tarfile
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.errors import ArchiveRefused, PatchRefused, SandboxGone, SandboxTimeout
from sandboxes.workspace import fetching
from sandboxes.workspace import pack as module
from sandboxes.workspace.fetching import BATCH, BATCH_BYTES, SMALL, batched
from sandboxes.workspace.manifest import FileEntry
from sandboxes.workspace.merge import Child, Policy, merge
from sandboxes.workspace.pack import PARALLEL, pack
from sandboxes.workspace.packed import PackedChanges, read_pack, write_plan
from sandboxes.workspace.store import BlobStore, blob_id
from sandboxes.workspace.tarwriter import CHUNK
from sandboxes.workspace.tree import BaseTree, Node, Tree
from tests.unit.sandboxes.workspace.test_patch_properties import trees
from tests.unit.sandboxes.workspace.trees import (
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    Files,
    Source,
    entry,
    fetch_from,
    manifest_of,
    served,
)

BASE = "1" * 40
CAP = 10 * 1024**2

FILES: Files = {
    b"a": (FILE, b"text\n" * 1000),
    b"bin/run": (EXECUTABLE, b"#!/bin/sh\n"),
    b"copy of a": (FILE, b"text\n" * 1000),
    b"empty": (FILE, b""),
    b"folder": (FOLDER, b""),
    b"link": (LINK, b"../../etc/passwd"),
    b"\xff\n": (FILE, b"of a strange name"),
}


async def packed(place: Path, files: Files, *, removed: tuple[str, ...] = (), cap: int = CAP) -> PackedChanges:
    await pack(manifest_of(files), removed, fetch_from(files), place / "pack", base=BASE, cap=cap)
    return read_pack(place / "pack", place / "store")


def files_of(changes: PackedChanges) -> dict[bytes, tuple[str, bytes]]:
    nodes = {path.encode("utf-8", "surrogateescape"): node for path, node in changes.changes.items() if node is not None}
    return {path: (node.mode, b"" if node.mode == FOLDER else changes.contents.get(node.blob)) for path, node in nodes.items()}


async def test_what_is_packed_is_what_is_read(tmp_path: Path) -> None:
    found = await packed(tmp_path, FILES, removed=("gone", "a.old/below"))
    assert files_of(found) == FILES
    assert {path for path, node in found.changes.items() if node is None} == {"gone", "a.old/below"}
    assert (found.base, found.before, found.value) == (BASE, {}, None)
    assert [*tmp_path.glob(".pack*")] == []


@given(trees)
@settings(max_examples=50, deadline=None)
async def test_any_workspace_can_be_packed(files: Files) -> None:
    with tempfile.TemporaryDirectory() as place:
        assert files_of(await packed(Path(place), files)) == files


async def test_the_same_changes_are_the_same_bytes(tmp_path: Path) -> None:
    for name, order in (("one", manifest_of(FILES)), ("two", manifest_of(FILES)[::-1])):
        await pack(order, [], fetch_from(FILES), tmp_path / name, base=BASE, cap=CAP)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


async def test_a_content_is_fetched_once_and_a_link_never(tmp_path: Path) -> None:
    asked: list[str] = []
    await pack(manifest_of(FILES), [], fetch_from(FILES, asked), tmp_path / "pack", base=BASE, cap=CAP)
    assert sorted(asked) == ["a", "bin/run", "empty", "\udcff\n"]


@pytest.mark.parametrize("padding", [b"", b"x" * SMALL], ids=["batches", "large"])
async def test_a_few_are_fetched_at_once_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, padding: bytes
) -> None:
    monkeypatch.setattr(fetching, "BATCH", 1)
    files: Files = {b"%d" % number: (FILE, b"content %d" % number + padding) for number in range(50)}
    at_once, most = 0, 0
    full = asyncio.Event()

    async def fetch(path: str) -> AsyncIterator[bytes]:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        if at_once == PARALLEL:
            full.set()
        await full.wait()
        yield files[path.encode()][1]
        at_once -= 1

    await asyncio.wait_for(pack(manifest_of(files), [], served(fetch), tmp_path / "pack", base=BASE, cap=CAP), 30)
    assert most == PARALLEL
    assert files_of(read_pack(tmp_path / "pack", tmp_path / "store")) == files


async def test_small_contents_come_many_in_a_call_and_large_ones_in_their_place_between_them(tmp_path: Path) -> None:
    files: Files = {b"%04d" % number: (FILE, b"content %d" % number) for number in range(3 * BATCH)}
    files[b"0700"] = (FILE, b"large" * SMALL)
    served_files = fetch_from(files)
    await pack(manifest_of(files), [], served_files, tmp_path / "pack", base=BASE, cap=CAP)
    assert isinstance(served_files.source, Source)
    assert [len(call) for call in served_files.source.calls] == [500, 200, 500, 299]
    assert files_of(read_pack(tmp_path / "pack", tmp_path / "store")) == files


@given(st.lists(st.integers(0, 2 * SMALL) | st.just(SMALL) | st.just(0), max_size=100))
def test_a_batch_is_one_large_content_or_as_many_small_ones_as_may_be_held(sizes: list[int]) -> None:
    entries = [FileEntry(str(at), FILE, size, "0" * 40) for at, size in enumerate(sizes)]
    batches = list(batched(entries))
    assert [one for batch in batches for one in batch] == entries
    for batch in batches:
        held = [one.size for one in batch]
        assert len(batch) == 1 or (max(held) <= SMALL and sum(held) <= BATCH_BYTES and len(batch) <= BATCH)
    for batch, following in itertools.pairwise(batches):
        full = sum(one.size for one in batch) + following[0].size > BATCH_BYTES or len(batch) == BATCH
        assert full or batch[0].size > SMALL or following[0].size > SMALL


async def test_large_contents_are_not_held_in_memory(tmp_path: Path) -> None:
    piece, pieces = bytes(CHUNK), 20

    async def fetch(_: str) -> AsyncIterator[bytes]:
        for _ in range(pieces):
            yield piece

    blob = blob_id([piece] * pieces, CHUNK * pieces)
    tracemalloc.start()
    try:
        large = FileEntry("large", FILE, CHUNK * pieces, blob)
        await pack([large], [], served(fetch), tmp_path / "p", base=BASE, cap=CHUNK * 21)
        assert tracemalloc.get_traced_memory()[1] < 5 * CHUNK
    finally:
        tracemalloc.stop()
    assert read_pack(tmp_path / "p", tmp_path / "store").changes == {"large": Node(FILE, blob, CHUNK * pieces)}


@pytest.mark.parametrize("padding", [b"", b"x" * SMALL], ids=["small", "large"])
@pytest.mark.parametrize("content", [b"", b"tex", b"TEXT", b"text and more"])
async def test_a_content_that_is_not_what_was_said_is_refused_by_name(tmp_path: Path, content: bytes, padding: bytes) -> None:
    files: Files = {b"others": (FILE, b"as they were"), b"the file": (FILE, padding + b"text")}
    with pytest.raises(PatchRefused, match="'the file' is not what the sandbox said"):
        await pack(
            manifest_of(files),
            [],
            fetch_from({**files, b"the file": (FILE, padding + content)}),
            tmp_path / "p",
            base=BASE,
            cap=CAP,
        )
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("said", [b"text", b"x" * SMALL * 2], ids=["small", "large"])
async def test_a_stream_without_end_is_not_followed(tmp_path: Path, said: bytes) -> None:
    async def endless(_: str) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1000

    with pytest.raises(PatchRefused, match="not what the sandbox said"):
        await pack([entry(b"f", FILE, said)], [], served(endless), tmp_path / "p", base=BASE, cap=CAP)


@pytest.mark.parametrize("said", [b"text", b"x" * SMALL * 2], ids=["small", "large"])
async def test_a_file_that_is_gone_or_cannot_be_read_is_named(tmp_path: Path, said: bytes) -> None:
    async def denied(path: str) -> AsyncIterator[bytes]:
        raise PermissionError(13, "Permission denied", path)
        yield b""

    for files in (served(denied), fetch_from({})):
        with pytest.raises(PatchRefused, match="cannot read 'f' in the sandbox"):
            await pack([entry(b"f", FILE, said)], [], files, tmp_path / "p", base=BASE, cap=CAP)


async def test_a_sandbox_that_fails_is_told_as_that_and_leaves_nothing(tmp_path: Path) -> None:
    async def failing(path: str) -> AsyncIterator[bytes]:
        yield b"of "
        raise SandboxGone("killed")

    files: Files = {b"%d" % number: (FILE, b"of %d" % number) for number in range(20)}
    with pytest.raises(SandboxGone):
        await pack(manifest_of(files), [], served(failing), tmp_path / "p", base=BASE, cap=CAP)
    assert not [*tmp_path.iterdir()]


async def test_contents_that_do_not_come_end_with_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_: str) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    monkeypatch.setattr(module, "DEADLINE", 0.05)
    with pytest.raises(SandboxTimeout, match="did not give the contents"):
        await pack(manifest_of(FILES), [], served(never), tmp_path / "p", base=BASE, cap=CAP)
    assert not [*tmp_path.iterdir()]


async def test_too_much_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    asked: list[str] = []
    with pytest.raises(PatchRefused, match="larger than 5000 bytes together"):
        await pack(manifest_of(FILES), [], fetch_from(FILES, asked), tmp_path / "p", base=BASE, cap=5000)
    assert not asked


@pytest.mark.parametrize(
    ("changed", "removed", "message"),
    [
        ([entry(b"../f", FILE, b"")], [], "cannot be"),
        ([entry(b"f", FILE, b""), entry(b"f/g", FILE, b"")], [], "'f/g' below it"),
        ([entry(b"f", FILE, b"")], ["f"], "'f' as changed and as removed"),
        ([], ["/etc/passwd"], "'/etc/passwd' is absolute"),
        ([], ["a/../../b"], "has a '..' in it"),
        ([replace(entry(b"f", FILE, b""), blob="../../../etc/passwd")], [], "not the id of one"),
        ([replace(entry(b"f", FILE, b""), mode="160000")], [], "mode '160000'"),
        ([entry(b"f", FILE, b"x"), replace(entry(b"g", FILE, b"x"), size=7)], [], "'g' is said to have 7 bytes"),
        ([FileEntry("l", LINK, 1, "0" * 40, None)], [], "where the link 'l' points"),
        ([FileEntry("l", LINK, 1, "0" * 40, "x")], [], "'l' is not what the sandbox said"),
    ],
)
async def test_what_no_sandbox_can_have_is_refused(
    tmp_path: Path, changed: list[FileEntry], removed: list[str], message: str
) -> None:
    with pytest.raises(PatchRefused, match=message):
        await pack(changed, removed, fetch_from({b"f": (FILE, b"x")}), tmp_path / "p", base=BASE, cap=CAP)
    assert not [*tmp_path.iterdir()]


def test_a_plan_says_what_was_there_before_and_what_its_writer_added(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "store")
    old, new = (Node("100644", store.put(content), len(content)) for content in (b"old", b"new!"))
    base = BaseTree({"f": old, "gone": old, "same": old}, store=store)
    child = Child.of("A", base, Tree({"f": new, "added": new, "same": old}), store)
    result = merge(base, [child], Policy())
    write_plan(tmp_path / "plan", base, result.changes, result.contents, {"parent": ["run-1"]})
    plan = read_pack(tmp_path / "plan", tmp_path / "elsewhere")
    assert plan.changes == {"added": new, "f": new, "gone": None}
    assert plan.before == {"added": None, "f": old, "gone": old}
    assert (plan.base, plan.value) == (base.id, {"parent": ["run-1"]})
    assert plan.contents.get(new.blob) == b"new!"


async def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    await packed(tmp_path, FILES)
    whole = (tmp_path / "pack").read_bytes()
    for length in range(0, len(whole) - 10240, 256):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(ArchiveRefused):
            read_pack(tmp_path / "cut", tmp_path / "store")


CONTENT = b"hello"
BLOB = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"
SAID: dict[str, Any] = {
    "version": 1,
    "base": BASE,
    "changes": [["f", "100644", BLOB, 5]],
    "before": [],
    "value": None,
}


def tar_of(path: Path, head: bytes, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as out:
        for info, content in ((tarfile.TarInfo("changes.json"), head), (tarfile.TarInfo("x"), CONTENT), *members):
            info.size = len(content)
            out.addfile(info, BytesIO(content))
    return path


def test_a_pack_is_read_by_what_it_says_and_not_by_the_names_in_it(tmp_path: Path) -> None:
    found = read_pack(tar_of(tmp_path / "p", json.dumps(SAID).encode()), tmp_path / "store")
    assert files_of(found) == {b"f": (FILE, CONTENT)}


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"", id="no json"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b"{}", id="nothing said"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(b'{"version": ' + b"9" * 5000 + b"}", id="a number without end"),
        *(
            pytest.param(json.dumps({**SAID, key: value}).encode(), id=f"{key} {value}"[:60])
            for key, value in [
                ("version", 2),
                ("base", "x"),
                ("base", None),
                ("changes", None),
                ("changes", {"f": None}),
                ("changes", [["f", "100644", BLOB]]),
                ("changes", [["f", "100644", BLOB, True]]),
                ("changes", [["f", "100644", BLOB, 4]]),
                ("changes", [["f", "100644", "0" * 40, 5]]),
                ("changes", [["f", "100644", "/etc/passwd", 5]]),
                ("changes", [["f", "160000", BLOB, 5]]),
                ("changes", [["f", ["100644"], BLOB, 5]]),
                ("changes", [["f", "040000", BLOB, 5]]),
                ("changes", [["../f", "100644", BLOB, 5]]),
                ("changes", [["/f"]]),
                ("changes", [["f"], ["f"]]),
                ("changes", [["\ud800"]]),
                ("changes", [["f", "100644", BLOB, 5], ["f/g", "100644", BLOB, 5]]),
                ("before", [["g"]]),
                ("before", [["f", "100644", "x", 5]]),
            ]
        ),
    ],
)
def test_a_pack_that_says_what_cannot_be_is_refused(tmp_path: Path, head: bytes) -> None:
    with pytest.raises(ArchiveRefused):
        read_pack(tar_of(tmp_path / "p", head), tmp_path / "store")


def member(change: Callable[[tarfile.TarInfo], None]) -> tarfile.TarInfo:
    info = tarfile.TarInfo("y")
    change(info)
    return info


@pytest.mark.parametrize(
    "info",
    [
        member(lambda info: setattr(info, "type", tarfile.CHRTYPE)),
        member(lambda info: setattr(info, "type", tarfile.LNKTYPE)),
        member(lambda info: setattr(info, "name", "../../outside")),
        member(lambda info: setattr(info, "name", "/outside")),
    ],
)
def test_a_member_that_no_pack_has_is_refused(tmp_path: Path, info: tarfile.TarInfo) -> None:
    with pytest.raises(ArchiveRefused):
        read_pack(tar_of(tmp_path / "p", json.dumps(SAID).encode(), (info, b"")), tmp_path / "store")


def test_a_member_of_a_negative_size_is_refused(tmp_path: Path) -> None:
    whole = bytearray(tar_of(tmp_path / "p", json.dumps(SAID).encode()).read_bytes())
    header = tarfile.TarInfo.frombuf(bytes(whole[:512]), "utf-8", "strict")
    header.size = -1024
    whole[:512] = header.tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "p").write_bytes(whole)
    with pytest.raises(ArchiveRefused):
        read_pack(tmp_path / "p", tmp_path / "store")


def test_what_is_no_tar_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"hello" * 1000)
    for name in ("p", "missing"):
        with pytest.raises(ArchiveRefused):
            read_pack(tmp_path / name, tmp_path / "store")
