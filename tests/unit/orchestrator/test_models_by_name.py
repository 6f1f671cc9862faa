"""What can be known of a model by its name."""

from __future__ import annotations

import pytest

from orchestrator.errors import BadInput
from orchestrator.models import find_model_key, model_provider, split_model


@pytest.mark.parametrize(
    ("model", "parts", "provider"),
    [
        ("scripted:a.yaml", ("scripted", "a.yaml", ""), None),
        ("replay:a/b.yaml", ("replay", "a/b.yaml", ""), None),
        ("record:c.yaml=anthropic:claude-x", ("record", "c.yaml", "anthropic:claude-x"), "anthropic"),
        ("openai:gpt-x", ("", "", "openai:gpt-x"), "openai"),
        ("claude-x", ("", "", "claude-x"), "anthropic"),
        ("mystery", ("", "", "mystery"), None),
    ],
)
def test_a_model_is_split(model: str, parts: tuple[str, str, str], provider: str | None) -> None:
    assert split_model(model) == parts
    assert model_provider(model) == provider


@pytest.mark.parametrize("model", ["", "openai:", ":x", "scripted:", "record:a.yaml", "record:a.yaml=", "record:=x"])
def test_what_is_no_model_is_refused(model: str) -> None:
    with pytest.raises(ValueError, match="write "):
        split_model(model)


def test_a_missing_key_is_bad_input_that_says_what_to_set() -> None:
    with pytest.raises(BadInput, match="set GOOGLE_API_KEY or GEMINI_API_KEY"):
        find_model_key("google_genai:g", {"GOOGLE_API_KEY": ""})


def test_the_key_of_a_provider_is_found_and_the_unknown_need_none() -> None:
    assert find_model_key("google_genai:g", {"GEMINI_API_KEY": "k"}) == "k"
    assert find_model_key("record:a.yaml=openai:x", {"OPENAI_API_KEY": "k"}) == "k"
    assert find_model_key("ollama:x", {}) is None
    assert find_model_key("scripted:x.yaml", {}) is None
