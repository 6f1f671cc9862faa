"""What runs left lies in a bucket of a real S3 server, and is had from there."""

from __future__ import annotations

import hashlib
import random
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from orchestrator.cli.artifacts import copied, prepare
from orchestrator.cli.door import kept_of
from orchestrator.errors import BadInput, InfrastructureError, WorkerUnavailable
from orchestrator.runs.artifacts import ArtifactStore, one_piece
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from tests.services_s3 import S3Server, s3_server

MIB = 1024 * 1024
LARGE = 20 * MIB
"""Bytes that are uploaded in several parts."""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(autouse=True)
def environment(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.new_bucket()


@pytest.fixture
def store(bucket: str, tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(f"s3://{bucket}/deep/prefix/", tmp_path / "spool")


async def kept(store: ArtifactStore, content: bytes) -> str:
    return (await store.keep("run-1", "no key", one_piece(content), limit=len(content))).sha256


async def large() -> AsyncIterator[bytes]:
    chance = random.Random(7)
    for _ in range(LARGE // MIB):
        yield chance.randbytes(MIB)


async def test_content_is_an_object_under_its_hash(store: ArtifactStore, s3: S3Server, bucket: str, tmp_path: Path) -> None:
    store.check("mine")
    artifact = await store.keep("run-1", "files/a.txt", one_piece(b"content"), limit=7)
    digest = hashlib.sha256(b"content").hexdigest()
    assert artifact.sha256 == digest
    assert store.place(digest) == f"s3://{bucket}/deep/prefix/{digest[:2]}/{digest[2:]}"
    assert s3.filesystem.cat_file(f"{bucket}/deep/prefix/{digest[:2]}/{digest[2:]}") == b"content"
    with store.open(digest, verify=True) as file:
        assert file.read() == b"content"
    assert list((tmp_path / "spool").iterdir()) == []


async def test_large_content_goes_in_parts_and_comes_in_ranges(store: ArtifactStore) -> None:
    artifact = await store.keep("run-1", "a", large(), limit=LARGE)
    whole = b"".join([piece async for piece in large()])
    with store.open(artifact.sha256, verify=True) as file:
        assert file.read() == whole
    assert b"".join(store.pieces(artifact.sha256, 7 * MIB + 3, 17 * MIB)) == whole[7 * MIB + 3 : 17 * MIB]


async def test_the_same_content_is_uploaded_once(store: ArtifactStore, s3: S3Server, bucket: str) -> None:
    digest = await kept(store, b"content")
    before = s3.filesystem.info(f"{bucket}/deep/prefix/{digest[:2]}/{digest[2:]}")
    assert await kept(store, b"content") == digest
    assert s3.filesystem.info(f"{bucket}/deep/prefix/{digest[:2]}/{digest[2:]}")["LastModified"] == before["LastModified"]
    assert len(s3.filesystem.find(bucket)) == 1


async def test_what_is_old_is_removed_and_what_is_young_stays(
    store: ArtifactStore, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = await kept(store, b"content")
    s3.filesystem.pipe_file(f"{bucket}/deep/prefix/{digest[:2]}/not-ours", b"")
    assert list(store.old()) == []
    assert store.remove([digest]) == []
    monkeypatch.setattr("orchestrator.runs.artifacts.REMOVE_AFTER", 0.0)
    assert list(store.old()) == [digest]
    assert store.remove([digest, "ab" * 32]) == [digest, "ab" * 32]
    assert s3.filesystem.find(bucket) == [f"{bucket}/deep/prefix/{digest[:2]}/not-ours"]


async def test_an_object_that_somebody_has_changed_is_told(store: ArtifactStore, s3: S3Server, bucket: str) -> None:
    digest = await kept(store, b"content")
    s3.filesystem.pipe_file(f"{bucket}/deep/prefix/{digest[:2]}/{digest[2:]}", b"CONTENT")
    with store.open(digest, verify=True) as file, pytest.raises(InfrastructureError, match="has changed"):
        file.read()


async def test_a_bucket_that_is_not_there_is_refused_by_its_name(tmp_path: Path) -> None:
    store = ArtifactStore("s3://no-such-bucket-here/prefix", tmp_path / "spool")
    with pytest.raises(BadInput, match=r"s3://no-such-bucket-here/prefix.* make it, or set FANFOLD_ARTIFACTS_URL"):
        store.check("mine")
    with pytest.raises(InfrastructureError, match="no-such-bucket-here"):
        await kept(store, b"content")


def test_a_server_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(InfrastructureError, match=r"s3://bucket: they cannot be read or written .* it can be reached"):
        ArtifactStore("s3://bucket", tmp_path / "spool").check("mine")


@contextmanager
def cut_off(endpoint: str, after: int) -> Iterator[str]:
    """A way to the server that is closed for good when `after` bytes have gone to it."""
    target = urlsplit(endpoint)
    left, lock = after, threading.Lock()
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, sink: socket.socket, *, counted: bool) -> None:
        nonlocal left
        with suppress(OSError), source, sink:
            while piece := source.recv(65536):
                if counted:
                    with lock:
                        left -= len(piece)
                    if left < 0:
                        listener.close()
                        return
                sink.sendall(piece)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client = listener.accept()[0]
                server = socket.create_connection((target.hostname, target.port))
                for source, sink, counted in ((client, server, True), (server, client, False)):
                    threading.Thread(target=pump, args=(source, sink), kwargs={"counted": counted}, daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


async def test_an_upload_that_breaks_off_leaves_no_half_object(
    s3: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cut_off(s3.endpoint, after=LARGE // 2) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        with pytest.raises(InfrastructureError, match="cannot be read or written"):
            await ArtifactStore(f"s3://{bucket}", tmp_path / "spool").keep("run-1", "a", large(), limit=LARGE)
    assert s3.filesystem.list_multipart_uploads(bucket) != []  # it had begun
    assert s3.filesystem.find(bucket) == []
    assert list((tmp_path / "spool").iterdir()) == []


def executed(service: Service, base: Path, **spec: object) -> str:
    run = service.submit(RunSpec.model_validate(spec), base_dir=base)
    service.ensure_worker()
    assert list(service.follow(run.id))[-1].data["status"] == "success"
    return run.id


def test_a_run_leaves_its_artifacts_in_the_bucket_and_they_are_copied_from_there(
    new_home, bucket: str, s3: S3Server, tmp_path: Path
) -> None:
    with new_home(ARTIFACTS_URL=f"s3://{bucket}/runs") as settings, Service(settings) as service:
        outputs = {"files": ["*.txt"], "patch": True}
        run_id = executed(service, tmp_path, command="echo one > a.txt; cp a.txt b.txt", outputs=outputs)
        found = kept_of(service, run_id)
        assert [item.artifact.name for item in found] == ["files/a.txt", "files/b.txt", "patch.diff"]
        assert all(str(item.place).startswith(f"s3://{bucket}/runs/") for item in found)

        out = prepare(tmp_path / "out")
        copied(found, out)
        assert (out / "files/a.txt").read_text() == (out / "files/b.txt").read_text() == "one\n"
        assert "+one" in (out / "patch.diff").read_text()
        assert not (settings.runs_dir / run_id / "artifacts").exists()
        assert not list(settings.spool_dir.iterdir())


def test_a_worker_whose_bucket_is_not_there_does_not_come_up(new_home, tmp_path: Path) -> None:
    wrong = "s3://no-such-bucket-here"
    with (
        new_home(ARTIFACTS_URL=wrong) as settings,
        Service(settings) as service,
        pytest.raises(WorkerUnavailable, match=wrong),
    ):
        service.ensure_worker()


def test_artifacts_of_a_run_of_the_first_version_are_still_had(new_home, tmp_path: Path) -> None:
    with new_home() as settings, Service(settings) as service:
        run_id = executed(service, tmp_path, command="echo old > a", outputs={"files": ["a"]})
        (artifact,) = service.artifacts(run_id)
        place = service.artifact_place(artifact)
        assert isinstance(place, Path)
        earlier = settings.runs_dir / run_id / "artifacts" / artifact.sha256
        earlier.parent.mkdir()
        shutil.move(place, earlier)

        assert service.artifact_place(artifact) == earlier
        with service.open_artifact(run_id, artifact.name) as file:
            assert file.read() == b"old\n"
        copied(kept_of(service, run_id), prepare(tmp_path / "out"))
        assert (tmp_path / "out" / artifact.name).read_text() == "old\n"


async def test_another_record_never_removes_what_is_in_a_place_that_is_not_its_own(
    store: ArtifactStore, bucket: str, s3: S3Server, tmp_path: Path
) -> None:
    store.check("another record")
    await kept(store, b"content")
    before = s3.filesystem.find(bucket)
    settings = Settings(home=tmp_path, artifacts_url=f"s3://{bucket}/deep/prefix")
    with Service(settings) as service, pytest.raises(BadInput, match="the place is of the record 'another record'"):
        service.prune(keep=0)
    assert s3.filesystem.find(bucket) == before
