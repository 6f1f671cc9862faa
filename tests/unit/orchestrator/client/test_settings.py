"""Settings of who works over an API."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli import guard
from orchestrator.cli.door import open_record, open_service
from orchestrator.client.service import RemoteService
from orchestrator.errors import BadInput
from orchestrator.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("FANFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FANFOLD_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("FANFOLD_API_KEY", "ffk_000000000000_hush-hush")
    return tmp_path / "home"


def test_no_home_is_made_and_the_key_is_not_shown(home: Path) -> None:
    settings = load_settings(make_home=False)
    with open_service() as service:
        assert isinstance(service, RemoteService)
        assert "hush-hush" not in repr((settings, service, service.client, vars(service)))

    assert "hush-hush" not in settings.model_dump_json()
    assert not home.exists()


def test_what_works_on_the_record_refuses_before_it_makes_a_home(home: Path) -> None:
    with pytest.raises(BadInput, match="FANFOLD_URL is set"):
        open_record()

    assert not home.exists()


def test_without_an_address_there_is_no_service_behind_it(home: Path) -> None:
    with pytest.raises(BadInput, match="set FANFOLD_URL"):
        RemoteService(Settings(url=None))


def test_a_fault_of_ours_is_written_down_without_a_home(home: Path) -> None:
    report = guard._log(RuntimeError("a fault"))

    assert "a fault" in report.read_text()
    assert not home.exists()
    report.unlink()
