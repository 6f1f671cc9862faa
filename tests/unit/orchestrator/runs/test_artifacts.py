"""What runs left is kept once, under its hash, whole or not at all."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import stat
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.runs.artifacts import REMOVE_AFTER, RENEW_AFTER, ArtifactStore, check_artifact_name, one_piece
from orchestrator.runs.spool import STALE_PART, TooLarge

MIB = 1024 * 1024


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def store(root: Path, tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(root), tmp_path / "spool")


async def kept(store: ArtifactStore, content: bytes, name: str = "a") -> str:
    return (await store.keep("run-1", name, one_piece(content), limit=MIB)).sha256


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def made_old(store: ArtifactStore, digest: str, seconds: float) -> None:
    path = store.place(digest)
    assert isinstance(path, Path)
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - seconds))


async def test_content_is_kept_under_its_hash_and_never_under_its_name(store: ArtifactStore, root: Path) -> None:
    artifact = await store.keep("run-1", "files/a b.txt", one_piece(b"content"), limit=7)
    digest = hashlib.sha256(b"content").hexdigest()
    assert (artifact.run_id, artifact.name, artifact.size, artifact.sha256) == ("run-1", "files/a b.txt", 7, digest)
    assert files(root) == [f"{digest[:2]}/{digest[2:]}"]
    assert store.place(digest) == root / digest[:2] / digest[2:]
    assert stat.S_IMODE((root / digest[:2] / digest[2:]).stat().st_mode) == 0o600
    with store.open(digest) as file:
        assert file.read() == b"content"


async def test_the_same_content_is_stored_once(store: ArtifactStore, root: Path) -> None:
    first = await kept(store, b"same", "a")
    inode = (root / files(root)[0]).stat().st_ino
    assert await kept(store, b"same", "b") == first
    assert len(files(root)) == 1
    assert (root / files(root)[0]).stat().st_ino == inode


async def test_many_that_keep_the_same_content_at_once_are_all_fine(store: ArtifactStore, root: Path) -> None:
    digests = await asyncio.gather(*(kept(store, b"same", f"a{number}") for number in range(20)))
    assert len(set(digests)) == 1
    assert len(files(root)) == 1


async def test_content_over_the_limit_leaves_nothing(store: ArtifactStore, root: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1000)

    with pytest.raises(TooLarge, match="'a' is larger than 5000 bytes; it was not kept"):
        await store.keep("run-1", "a", endless(), limit=5000)
    assert files(root) == []


async def test_content_that_breaks_off_leaves_nothing(store: ArtifactStore, root: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise OSError(errno.EIO, "the sandbox is gone")

    with pytest.raises(OSError, match="the sandbox is gone"):
        await store.keep("run-1", "a", broken(), limit=MIB)
    assert files(root) == []


async def test_content_that_is_given_up_leaves_nothing(store: ArtifactStore, root: Path) -> None:
    begun = asyncio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        yield b"half"
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(store.keep("run-1", "a", stuck(), limit=MIB))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert files(root) == []


async def test_large_content_is_never_whole_in_memory(store: ArtifactStore) -> None:
    async def large() -> AsyncIterator[bytes]:
        for number in range(64):
            yield bytes([number]) * MIB

    tracemalloc.start()
    try:
        artifact = await store.keep("run-1", "a", large(), limit=64 * MIB)
        assert sum(len(piece) for piece in store.pieces(artifact.sha256)) == 64 * MIB
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, None, b"0123456789"), (3, 7, b"3456"), (7, 99, b"789"), (10, None, b""), (99, None, b""), (4, 4, b""), (5, 2, b"")],
)
async def test_a_range_is_read(store: ArtifactStore, start: int, end: int | None, expected: bytes) -> None:
    digest = await kept(store, b"0123456789")
    assert b"".join(store.pieces(digest, start, end)) == expected


async def test_content_that_was_changed_on_the_disk_is_told_when_asked(store: ArtifactStore, root: Path) -> None:
    digest = await kept(store, b"content")
    (root / files(root)[0]).write_bytes(b"CONTENT")
    with store.open(digest, verify=True) as file, pytest.raises(InfrastructureError, match="has changed"):
        file.read()


async def test_content_that_was_cut_on_the_disk_is_mended_by_keeping_it_again(store: ArtifactStore, root: Path) -> None:
    digest = await kept(store, b"content")
    (root / files(root)[0]).write_bytes(b"cont")
    await kept(store, b"content")
    assert b"".join(store.pieces(digest)) == b"content"


def test_content_that_is_not_there_is_told_with_its_place(store: ArtifactStore, root: Path) -> None:
    with pytest.raises(InfrastructureError, match=f"artifacts at {root}: the content {'ab' * 32} is not there"):
        store.open("ab" * 32)


@pytest.mark.parametrize("digest", ["", "../" * 10 + "etc", "AB" * 32, "ab" * 31, "ab" * 31 + "/x", "ab" * 32 + "\n"])
def test_only_a_hash_becomes_a_key(store: ArtifactStore, digest: str) -> None:
    with pytest.raises(BadInput, match="is not the SHA-256 of an artifact"):
        store.open(digest)


async def test_what_no_run_refers_to_is_removed_when_it_is_old(store: ArtifactStore, root: Path) -> None:
    old, young = await kept(store, b"old"), await kept(store, b"young")
    made_old(store, old, REMOVE_AFTER + 1)
    assert list(store.old()) == [old]
    assert store.remove([old, young, "ab" * 32]) == [old, "ab" * 32]
    assert [place.replace("/", "") for place in files(root)] == [young]


async def test_old_content_that_a_run_leaves_again_counts_as_young(store: ArtifactStore) -> None:
    digest = await kept(store, b"content")
    made_old(store, digest, REMOVE_AFTER + 1)
    await kept(store, b"content")
    assert store.remove([digest]) == []
    assert RENEW_AFTER < REMOVE_AFTER


def test_a_store_that_is_checked_is_usable_and_without_the_remains_of_the_dead(store: ArtifactStore, root: Path) -> None:
    spool = root / ".spool"
    spool.mkdir(parents=True)
    for name, age in (("part-dead", STALE_PART + 1), ("part-alive", 0.0)):
        (spool / name).write_bytes(b"half")
        os.utime(spool / name, (0, (spool / name).stat().st_mtime - age))
    store.check("mine")
    nothing = hashlib.sha256(b"").hexdigest()
    assert files(root) == [".spool/part-alive", f"{nothing[:2]}/{nothing[2:]}", "installation"]


async def test_a_place_is_for_one_record_alone(store: ArtifactStore, root: Path, tmp_path: Path) -> None:
    store.check("mine")
    digest = await kept(store, b"content")
    store.check("mine")
    with pytest.raises(BadInput, match=f"the place is of the record 'mine', and this is 'theirs'.* remove {root}/installation"):
        ArtifactStore(str(root), tmp_path / "spool").check("theirs")
    assert b"".join(store.pieces(digest)) == b"content"


async def test_any_other_filesystem_of_fsspec_will_do(tmp_path: Path) -> None:
    store = ArtifactStore("memory://artifacts-of-a-test/deep", tmp_path / "spool")
    store.check("mine")
    digest = await kept(store, b"content")
    assert store.place(digest) == f"memory://artifacts-of-a-test/deep/{digest[:2]}/{digest[2:]}"
    assert b"".join(store.pieces(digest, 2, 4)) == b"nt"
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("relative/folder", "write a folder's absolute path"),
        ("", "write a folder's absolute path"),
        ("simplecache::s3://bucket", "write a folder's absolute path"),
        ("nonsense://bucket", "no place for artifacts"),
        ("s3://", "write a folder's absolute path"),
        ("memory:///", "a folder or a bucket is missing"),
        ("/", "a folder or a bucket is missing"),
        ("sftp://me:hunter2@host/folder", "a password in it would be shown"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=reason) as refused:
        ArtifactStore(url, tmp_path)
    assert "FANFOLD_ARTIFACTS_URL" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_folder_that_cannot_be_one_is_refused_by_the_check(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"file/artifacts: they cannot be read or written .NotADirectoryError"):
        ArtifactStore(str(tmp_path / "file" / "artifacts"), tmp_path).check("mine")


async def test_a_disk_that_is_full_is_told_and_leaves_nothing(store: ArtifactStore, root: Path) -> None:
    async def large() -> AsyncIterator[bytes]:
        yield bytes(MIB)

    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # Python ignores SIGXFSZ: the write fails instead
    try:
        with pytest.raises(InfrastructureError, match="artifacts cannot be written there: File too large; make room"):
            await store.keep("run-1", "a", large(), limit=MIB)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert files(root) == []


@pytest.mark.parametrize(
    "name",
    ["", "/a", "../a", "a/../b", "a//b", "./a", "a/", "a\nb", "a\x1b[31m", "\udc80", "a\\b", "x" * 256, "a/" * 600 + "a"],
)
def test_a_name_that_could_harm_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be the name of an artifact"):
        check_artifact_name(name)


@pytest.mark.parametrize("name", ["patch.diff", "files/reports/unit tests.xml", "-rf", "ünïcode", "..a", "a..b"])
def test_a_plain_name_is_fine(name: str) -> None:
    check_artifact_name(name)
