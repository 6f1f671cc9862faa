"""Settings come from the environment, and a slip in it is told."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from orchestrator.errors import BadInput
from orchestrator.settings import default_home, load_settings


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("FANFOLD_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("FANFOLD_HOME", str(tmp_path / "state" / "home"))


def test_the_home_is_made_for_this_user_only(tmp_path: Path) -> None:
    settings = load_settings()
    assert settings.home == tmp_path / "state" / "home"
    assert stat.S_IMODE(settings.home.stat().st_mode) == 0o700
    assert settings.database == f"sqlite:///{settings.home}/fanfold.db"


def test_values_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FANFOLD_WORKER_CONCURRENCY", "9")
    monkeypatch.setenv("FANFOLD_WORKER_IDLE_EXIT", "10m")
    monkeypatch.setenv("FANFOLD_ALLOWED_SECRETS", "A_KEY, B_KEY,")
    settings = load_settings()
    assert (settings.worker_concurrency, settings.worker_idle_exit) == (9, 600)
    assert settings.allowed_secrets == {"A_KEY", "B_KEY"}


def test_artifacts_are_in_the_home_unless_they_are_put_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert load_settings().artifacts == str(tmp_path / "state" / "home" / "artifacts")
    monkeypatch.setenv("FANFOLD_ARTIFACTS_URL", "s3://bucket/prefix")
    assert load_settings().artifacts == "s3://bucket/prefix"


def test_uploads_are_in_the_home_unless_a_folder_is_shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert load_settings().uploads_dir == tmp_path / "state" / "home" / "uploads"
    monkeypatch.setenv("FANFOLD_UPLOADS", "/srv/uploads")
    assert load_settings().uploads_dir == Path("/srv/uploads")


def test_a_variable_that_is_not_known_is_refused_with_a_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FANFOLD_REDIS_ULR", "redis://nowhere")
    with pytest.raises(BadInput, match="FANFOLD_REDIS_ULR is not known; did you mean 'FANFOLD_REDIS_URL'"):
        load_settings()


def test_a_wrong_value_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FANFOLD_WORKER_CONCURRENCY", "none")
    with pytest.raises(BadInput, match="FANFOLD_WORKER_CONCURRENCY: "):
        load_settings()


def test_a_home_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FANFOLD_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(BadInput, match="set FANFOLD_HOME"):
        load_settings()


def test_the_default_home_respects_xdg() -> None:
    assert default_home({"XDG_STATE_HOME": "/x"}) == Path("/x/fanfold")
    assert default_home({"XDG_STATE_HOME": "relative"}) == Path.home() / ".local/state/fanfold"
