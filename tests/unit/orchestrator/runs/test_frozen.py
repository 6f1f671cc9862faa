"""What was frozen for a run reaches every machine through the shared place, whole or not at all, and goes with the run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.files import RunFolder, Secrets
from orchestrator.runs.frozen import SWEEP_AFTER, FrozenFiles
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.store import Store
from orchestrator.settings import Settings
from orchestrator.vault import Vault

RUN = "run-0123456789ab"
SECRETS = Secrets({"KEY": "hunter2"}, "sk-1")


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path / "shared"), tmp_path / "spool")


@pytest.fixture
def frozen(store: Store, artifacts: ArtifactStore) -> FrozenFiles:
    return FrozenFiles(store, artifacts, shared=True)


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(Settings(home=tmp_path))


@pytest.fixture
def here(tmp_path: Path, vault: Vault) -> RunFolder:
    folder = RunFolder.of(tmp_path / "here", RUN, vault)
    folder.create()
    folder.input_tar.write_bytes(b"inputs" * 1000)
    folder.model_file.write_text("turns: []")
    folder.write_secrets(SECRETS)
    return folder


@pytest.fixture
def there(tmp_path: Path, vault: Vault) -> RunFolder:
    return RunFolder.of(tmp_path / "there", RUN, vault)


def submit(store: Store, frozen: FrozenFiles, folder: RunFolder) -> None:
    sent = frozen.send(RUN, folder)
    store.add(NewRun(RUN, "task", {"command": "true"}, frozen=sent))


def fetch(frozen: FrozenFiles, folder: RunFolder, **names: object) -> None:
    for _ in frozen.fetch(RUN, folder, **names):  # type: ignore[arg-type]
        pass


def finish(store: Store) -> None:
    lease = store.claim(RUN, "w")
    assert lease
    store.finish(lease, RunStatus.SUCCESS)


def test_another_machine_has_what_was_frozen_here(store: Store, frozen: FrozenFiles, here: RunFolder, there: RunFolder) -> None:
    submit(store, frozen, here)
    assert not here.path.exists()
    fetch(frozen, there)
    assert there.input_tar.read_bytes() == b"inputs" * 1000
    assert there.model_file.read_text() == "turns: []"
    assert there.read_secrets() == SECRETS
    assert {path.stat().st_mode & 0o777 for path in there.path.iterdir()} == {0o600}


def test_no_listing_shows_it(store: Store, frozen: FrozenFiles, here: RunFolder) -> None:
    submit(store, frozen, here)
    assert store.artifacts(RUN) == []
    assert sorted(one.name for one in store.frozen(RUN)) == [
        ".inputs/input.tar",
        ".inputs/model.yaml",
        ".inputs/secrets.sealed",
    ]


def test_the_shared_place_does_not_show_the_secrets(store: Store, frozen: FrozenFiles, here: RunFolder, tmp_path: Path) -> None:
    submit(store, frozen, here)
    files = [path for path in (tmp_path / "shared").rglob("*") if path.is_file()]
    assert len(files) >= 3
    assert not [path for path in files if b"hunter2" in path.read_bytes()]


def test_only_what_is_asked_for_is_fetched(store: Store, frozen: FrozenFiles, here: RunFolder, there: RunFolder) -> None:
    submit(store, frozen, here)
    fetch(frozen, there, names=["secrets.sealed"])
    assert [path.name for path in there.path.iterdir()] == ["secrets.sealed"]


def test_what_is_there_already_is_not_fetched_again(
    store: Store, frozen: FrozenFiles, here: RunFolder, there: RunFolder
) -> None:
    submit(store, frozen, here)
    fetch(frozen, there)
    before = there.input_tar.stat().st_ino
    fetch(frozen, there)
    assert there.input_tar.stat().st_ino == before


def test_content_that_somebody_has_changed_is_refused_and_not_left(
    store: Store, frozen: FrozenFiles, artifacts: ArtifactStore, here: RunFolder, there: RunFolder
) -> None:
    submit(store, frozen, here)
    [tar] = [one for one in store.frozen(RUN) if one.name == ".inputs/input.tar"]
    place = Path(artifacts.place(tar.sha256))
    place.chmod(0o600)
    place.write_bytes(b"INPUTS" * 1000)
    with pytest.raises(InfrastructureError, match="has changed"):
        fetch(frozen, there)
    assert not [path for path in there.path.iterdir() if "input.tar" in path.name]


def test_content_that_is_gone_is_told(
    store: Store, frozen: FrozenFiles, artifacts: ArtifactStore, here: RunFolder, there: RunFolder
) -> None:
    submit(store, frozen, here)
    for one in store.frozen(RUN):
        Path(artifacts.place(one.sha256)).unlink()
    with pytest.raises(InfrastructureError, match="FANFOLD_ARTIFACTS_URL was another one"):
        fetch(frozen, there)


def test_a_fetch_that_is_given_up_leaves_no_half_file(
    store: Store, frozen: FrozenFiles, here: RunFolder, there: RunFolder
) -> None:
    submit(store, frozen, here)
    steps = frozen.fetch(RUN, there)
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert list(there.path.iterdir()) == []


def test_with_a_place_of_this_machine_nothing_is_copied(
    store: Store, artifacts: ArtifactStore, here: RunFolder, tmp_path: Path
) -> None:
    frozen = FrozenFiles(store, artifacts, shared=False)
    submit(store, frozen, here)
    assert store.frozen(RUN) == []
    fetch(frozen, here)
    frozen.release(RUN, here)
    assert here.input_tar.exists()
    assert not (tmp_path / "shared").exists()


def test_a_place_of_another_record_is_refused_and_the_folder_stays(
    store: Store, frozen: FrozenFiles, artifacts: ArtifactStore, here: RunFolder
) -> None:
    artifacts.check("another record")
    with pytest.raises(BadInput, match="the place is of the record 'another record'"):
        frozen.send(RUN, here)
    assert here.input_tar.exists()


def test_the_record_forgets_the_secrets_when_the_run_has_ended(
    store: Store, frozen: FrozenFiles, here: RunFolder, there: RunFolder
) -> None:
    submit(store, frozen, here)
    finish(store)
    assert sorted(one.name for one in store.frozen(RUN)) == [".inputs/input.tar", ".inputs/model.yaml"]


def test_a_run_that_was_cancelled_before_it_began_has_no_secrets_either(
    store: Store, frozen: FrozenFiles, here: RunFolder
) -> None:
    submit(store, frozen, here)
    store.request_cancel(RUN)
    assert ".inputs/secrets.sealed" not in {one.name for one in store.frozen(RUN)}


def test_content_is_kept_as_long_as_its_run(store: Store, frozen: FrozenFiles, here: RunFolder) -> None:
    submit(store, frozen, here)
    digests = [one.sha256 for one in store.frozen(RUN)]
    assert store.unreferenced(digests) == []
    finish(store)
    store.forget([RUN])
    assert store.unreferenced(digests) == digests


def test_a_worker_keeps_nothing_of_a_run_that_has_ended(
    store: Store, frozen: FrozenFiles, here: RunFolder, there: RunFolder
) -> None:
    submit(store, frozen, here)
    fetch(frozen, there)
    finish(store)
    frozen.release(RUN, there)
    assert not there.path.exists()


def test_what_lies_in_the_folder_alone_is_not_removed(store: Store, frozen: FrozenFiles, here: RunFolder) -> None:
    store.add(NewRun(RUN, "task", {"command": "true"}))  # submitted before there was a shared place
    frozen.release(RUN, here)
    assert here.input_tar.exists()


def test_a_sweep_removes_what_dead_workers_left_of_runs_that_have_ended(
    store: Store, frozen: FrozenFiles, here: RunFolder, there: RunFolder
) -> None:
    submit(store, frozen, here)
    fetch(frozen, there)
    old = time.time() - SWEEP_AFTER - 60
    os.utime(there.path, (old, old))
    frozen.sweep(there.path.parent)
    assert there.path.exists()  # it goes on
    finish(store)
    frozen.sweep(there.path.parent)
    assert not there.path.exists()
    frozen.sweep(there.path.parent / "nowhere")


def test_the_run_and_what_was_frozen_for_it_are_recorded_together(store: Store, frozen: FrozenFiles, here: RunFolder) -> None:
    sent = frozen.send(RUN, here)
    new = NewRun(RUN, "task", {"command": "true"}, frozen=(*sent, sent[0]))  # a name twice: the database refuses it
    with pytest.raises(InfrastructureError):
        store.add(new)
    assert store.find(RUN, tenant="default") == []
