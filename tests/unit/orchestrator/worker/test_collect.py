"""What a sandbox gives is kept without secrets and within caps; what is not kept is told."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.redact import Redactor
from orchestrator.runs.artifacts import ArtifactStore, one_piece
from orchestrator.runs.files import RunFolder
from orchestrator.runs.models import NewRun
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.spec import RunSpec
from orchestrator.worker import collect
from orchestrator.worker.collect import Collector
from orchestrator.worker.recorder import Recorder

RUN = "run-0123456789ab"


class Kept:
    """A claimed run, and the collector of its attempt."""

    def __init__(self, home: Path) -> None:
        self.store = Store(open_database(f"sqlite:///{home}/fanfold.db", home / "database.lock"))
        self.artifacts = ArtifactStore(str(home / "artifacts"), home / "spool")
        self.store.add(NewRun(RUN, "test", {}))
        lease = self.store.claim(RUN, "worker")
        assert lease is not None
        self.recorder = Recorder(self.store, lease, Redactor(["hunter2"]))
        folder, spec = RunFolder.of(home / "runs", RUN), RunSpec(command="true")
        self.collector = Collector(spec, folder, self.store, self.artifacts, lease, self.recorder)

    async def contents(self) -> dict[str, bytes]:
        await self.recorder.flush()
        return {item.name: b"".join(self.artifacts.pieces(item.sha256)) for item in self.store.artifacts(RUN)}

    async def warnings(self) -> list[str]:
        await self.recorder.flush()
        return [event.data["text"] for event in self.store.events(RUN) if event.data.get("level") == "warning"]


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    made = Kept(tmp_path)
    yield made
    await made.recorder.close()
    made.store.close()


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield bytes(1000)


async def test_secrets_are_taken_out_also_over_the_borders_of_pieces(kept: Kept) -> None:
    await kept.collector.keep("a", pieces(b"my hun", b"ter2!"))
    assert await kept.contents() == {"a": b"my ***!"}


async def test_endless_content_meets_the_cap_and_the_rest_goes_on(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "ARTIFACT_CAP", 5000)
    await kept.collector.keep("endless", endless())
    await kept.collector.keep("a", one_piece(b"content"))
    assert await kept.contents() == {"a": b"content"}
    assert await kept.warnings() == ["artifact 'endless' is larger than 5000 bytes; it was not kept"]


async def test_all_artifacts_of_an_attempt_together_meet_a_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "RUN_CAP", 10)
    kept = Kept(tmp_path)
    for name in ("a", "b"):
        await kept.collector.keep(name, one_piece(b"content"))
    assert await kept.contents() == {"a": b"content"}
    assert await kept.warnings() == ["artifact 'b' is larger than 3 bytes; it was not kept"]
    await kept.recorder.close()
    kept.store.close()


async def test_a_name_that_could_harm_is_told_and_not_kept(kept: Kept) -> None:
    await kept.collector.keep("../../a", one_piece(b"content"))
    assert await kept.contents() == {}
    assert "cannot be the name of an artifact" in (await kept.warnings())[0]


async def test_a_file_that_cannot_be_read_is_told(kept: Kept) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise PermissionError("not for you")

    await kept.collector.keep("a", broken())
    assert await kept.contents() == {}
    assert await kept.warnings() == ["artifact 'a' cannot be had: not for you"]


async def test_a_place_that_fails_fails_the_attempt(kept: Kept, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "artifacts", ignore_errors=True)
    (tmp_path / "artifacts").touch()
    with pytest.raises(InfrastructureError, match="artifacts cannot be written there"):
        await kept.collector.keep("a", one_piece(b"content"))
    assert await kept.contents() == {}
