"""What can be known of a model by its name alone, without importing anything that could call it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.errors import BadInput

MODEL_FILE_KINDS = ("scripted", "replay", "record")
"""Prefixes of models that stand in a file beside the task."""

MODEL_KEYS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "azure_openai": ("AZURE_OPENAI_API_KEY",),
    "cohere": ("COHERE_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "google_genai": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistralai": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "perplexity": ("PPLX_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}
"""The environment variables that hold the key of a model provider; any one of them is enough."""

_INFERRED = (("gpt-", "openai"), ("o1", "openai"), ("o3", "openai"), ("chatgpt", "openai"), ("claude", "anthropic"))
"""Providers of names that come without one, as langchain infers them."""


def split_model(model: str) -> tuple[str, str, str]:
    """`(kind, file, inner)`: `("record", "c.yaml", "openai:gpt")`, `("scripted", "s.yaml", "")`, `("", "", "openai:gpt")`.

    Raises `ValueError` when it has none of these forms.
    """
    prefix, colon, rest = model.partition(":")
    if prefix not in MODEL_FILE_KINDS:
        if not model.strip() or (colon and not rest) or (colon and not prefix):
            raise ValueError(f"{model!r} is not a model: write PROVIDER:NAME, scripted:FILE, replay:FILE or record:FILE=MODEL")
        return "", "", model
    file, _, inner = rest.partition("=") if prefix == "record" else (rest, "", "")
    if not file or (prefix == "record" and not inner):
        form = "record:FILE=PROVIDER:NAME" if prefix == "record" else f"{prefix}:FILE"
        raise ValueError(f"{model!r} is not complete: write {form}")
    return prefix, file, inner


def model_provider(model: str) -> str | None:
    """The langchain provider that would serve this model; None for a scripted or replayed one, or when it is not known."""
    kind, _, inner = split_model(model)
    if kind and kind != "record":
        return None
    if ":" in inner:
        return inner.partition(":")[0]
    return next((provider for start, provider in _INFERRED if inner.startswith(start)), None)


def find_model_key(model: str, environ: Mapping[str, str]) -> str | None:
    """The key for `model` among `environ`; None when it needs none that is known. Raises `BadInput` when it is missing."""
    names = _key_names(model)
    if not names:
        return None
    if variable := key_variable(model, environ):
        return environ[variable]
    raise BadInput(f"model '{model}': its key is missing: set {' or '.join(names)} in the environment, or choose another model")


def check_one_key(models: Iterable[str]) -> None:
    """Raise `ValueError` when these models need the keys of several providers: a run takes one key along."""
    if len(providers := {str(model_provider(model)) for model in models if _key_names(model)}) > 1:
        raise ValueError(
            f"its models need the keys of {' and '.join(sorted(providers))}, and a run takes the key of one provider along:"
            " choose models of one provider"
        )


def key_variable(model: str, environ: Mapping[str, str]) -> str | None:
    """The variable of `environ` that holds the key for `model`; None when none does, or when no key is known to be needed."""
    return next((name for name in _key_names(model) if environ.get(name)), None)


def _key_names(model: str) -> tuple[str, ...]:
    return MODEL_KEYS.get(model_provider(model) or "", ())
