"""From the name of a model to the model, and what is said when it cannot be had."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orchestrator.agent.models import resolve
from orchestrator.agent.recorded import RecordingChatModel, ReplayChatModel
from orchestrator.agent.scripted import ScriptedChatModel
from orchestrator.errors import BadInput
from orchestrator.models import MODEL_KEYS


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for names in MODEL_KEYS.values() for name in names]:
        monkeypatch.delenv(name, raising=False)
    # Clients of providers read the certificates that these name as soon as they are made.
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def refusal(model: str, files: Path, key: str | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        resolve(model, files, key)
    return str(caught.value)


def test_models_in_files_are_read_from_the_frozen_copy(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text("turns: [{text: hi}]")
    assert isinstance(resolve("scripted:a/b/s.yaml", tmp_path, None), ScriptedChatModel)
    recording = resolve("record:out/c.yaml=scripted:s.yaml", tmp_path, None)
    assert isinstance(recording, RecordingChatModel)
    assert list(recording.tape.files()) == ["c.yaml"]
    (tmp_path / "model.yaml").write_text("exchanges: []")
    assert isinstance(resolve("replay:c.yaml", tmp_path, None), ReplayChatModel)


def test_messages_name_the_file_as_the_user_did(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text("turns: []")
    assert refusal("scripted:scripts/mine.yaml", tmp_path).startswith("mine.yaml:1: turns: ")


def test_a_model_file_that_was_not_frozen_is_told(tmp_path: Path) -> None:
    assert "its file is not among the run's inputs" in refusal("replay:c.yaml", tmp_path)


@pytest.mark.parametrize("model", ["anthropic:claude-x", "openai:gpt-x", "google_genai:gemini-x"])
def test_a_model_of_a_provider_is_made_with_the_key_that_is_given(model: str, tmp_path: Path) -> None:
    assert resolve(model, tmp_path, "sk-test").bind_tools([]) is not None


@pytest.mark.parametrize(("model", "variable"), [("anthropic:x", "ANTHROPIC_API_KEY"), ("gpt-4o", "OPENAI_API_KEY")])
def test_a_missing_key_is_told_with_its_variable(model: str, variable: str, tmp_path: Path) -> None:
    assert f"set {variable}" in refusal(model, tmp_path)


def test_an_unknown_provider_is_told(tmp_path: Path) -> None:
    for model in ("nobody:x", "nobody"):
        told = refusal(model, tmp_path)
        assert told.startswith(f"model '{model}' cannot be used: ")
        assert "write PROVIDER:NAME" in told


@pytest.mark.parametrize("model", ["", "scripted:", "record:c.yaml", ":x", "openai:"])
def test_a_name_of_no_known_form_is_told(model: str, tmp_path: Path) -> None:
    assert "write " in refusal(model, tmp_path)


def test_a_missing_package_is_told_with_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from langchain.chat_models import base

    base._get_chat_model_creator.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "langchain_anthropic"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "langchain_anthropic", None)
    assert "pip install 'fanfold[anthropic]'" in refusal("anthropic:x", tmp_path, "k")
    assert "pip install langchain-mistralai" in refusal("mistralai:x", tmp_path, "k")


def test_a_key_is_not_in_the_message_when_a_model_cannot_be_made(tmp_path: Path) -> None:
    assert "sk-secret" not in refusal("nobody:sk-secret", tmp_path, "sk-secret").replace("'nobody:sk-secret'", "")
