"""Refusing a task that has a secret written into it: the record keeps tasks as they are, and shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.errors import BadInput
from orchestrator.spec import RunSpec

MIN_LENGTH = 12
"""Characters below which a value is not looked for: a short one (`postgres`, `production`) stands in texts by chance."""


def check_no_secret(spec: RunSpec, secrets: Mapping[str, str], model_key: str | None) -> None:
    """Raise `BadInput`, without the value, when a text of the task has the value of a secret, or the model's key, in it."""
    named = {value: f"the secret {name}" for name, value in secrets.items()}
    if model_key:
        named.setdefault(model_key, "the key of the model")
    long = {value: name for value, name in named.items() if len(value) >= MIN_LENGTH}
    if not long:
        return
    for place, text in _all_texts(spec):
        for value, name in long.items():
            if value in text:
                raise BadInput(
                    f"{place}: has the value of {name} written into it, and would show it in the record: leave it out here"
                    " (commands in the sandbox have secrets in their environment)"
                )


def _all_texts(spec: RunSpec) -> Iterator[tuple[str, str]]:
    """Every text of a task; of its children with all placeholders filled, too, since each child's run is recorded so."""
    yield from _texts(spec.model_dump(mode="json", exclude={"secrets"}), "")
    for child in spec.fan_out.children() if spec.fan_out else ():
        yield from _texts(spec.child(child).model_dump(mode="json", include={"agent", "command"}), f"the child {child.name}")


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every text in a JSON value, with where it is."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, part in value.items():
            inner = f"{place}.{key}" if place else str(key)
            yield place or "the task", str(key)
            yield from _texts(part, inner)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _texts(part, f"{place}[{number}]")
