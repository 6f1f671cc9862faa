"""From the name of a model to the model: scripted, replayed, recorded, or any that langchain's `init_chat_model` knows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from orchestrator.agent.cassette import CASSETTE_CAP, Cassette, Deck, load_cassette
from orchestrator.agent.middleware import redacted
from orchestrator.agent.recorded import RecordingChatModel, ReplayChatModel, Tape
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel
from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.models import find_model_key, model_provider, split_model
from orchestrator.yamlfile import MAX_BYTES

MODEL_FILE = "model.yaml"
"""Name of the script or cassette among the frozen files of a run, whatever the user called it."""

_EXTRAS = ("anthropic", "openai")
"""Model providers whose package an extra of Fanfold brings."""


def resolve(model: str, files: Path, api_key: str | None) -> BaseChatModel:
    """The chat model that `model` names. Raises `BadInput` with what to do when it cannot be had as it is named."""
    try:
        kind, file, inner = split_model(model)
    except ValueError as exc:
        raise BadInput(str(exc)) from exc
    name = Path(file).name
    if kind == "scripted":
        return ScriptedChatModel(script=load_script(_frozen(files, model, MAX_BYTES), name), file=name)
    if kind == "replay":
        return ReplayChatModel(deck=Deck(name, load_cassette(_frozen(files, model, CASSETTE_CAP), name)))
    if kind == "record":
        return RecordingChatModel(inner=resolve(inner, files, api_key), tape=Tape(name, Cassette(model=inner), api_key))
    return provided(model, api_key)


def _frozen(files: Path, model: str, cap: int) -> bytes:
    path = files / MODEL_FILE
    try:
        with path.open("rb") as stream:
            data = stream.read(cap + 1)
    except OSError as exc:
        raise BadInput(f"model '{model}': its file is not among the run's inputs ({path}): {exc.strerror}") from exc
    if len(data) > cap:
        raise BadInput(f"model '{model}': its file is larger than {cap // 1024} KiB")
    return data


def provided(model: str, api_key: str | None = None) -> BaseChatModel:
    """A model of a provider, with its key as it is given or from the environment. Raises `BadInput` when it cannot be had."""
    key = api_key or find_model_key(model, os.environ)
    options: dict[str, Any] = {"api_key": key} if key else {}
    try:
        return initialized(model=model, **options)
    except ImportError as exc:
        provider = model_provider(model)
        how = f"run `pip install 'fanfold[{provider}]'`" if provider in _EXTRAS else str(exc)
        raise BadInput(f"model '{model}': the package for its provider is not installed: {how}") from exc
    except OSError as exc:
        raise InfrastructureError(f"model '{model}' cannot be set up on this machine: {exc}") from exc
    except Exception as exc:
        known = "write PROVIDER:NAME, such as anthropic:NAME or openai:NAME, or scripted:FILE, replay:FILE, record:FILE=MODEL"
        reason = redacted(str(exc), key).split("\n\n")[0]
        raise BadInput(f"model '{model}' cannot be used: {reason} ({known})") from exc


def initialized(**arguments: Any) -> BaseChatModel:
    """`init_chat_model` with these arguments."""
    found: BaseChatModel = init_chat_model(**arguments)
    return found
