"""JSON of any shape: a hostile client, model or sandbox may fill it with what nobody can write down again.

That is what is nested too deep, and halves of characters.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

MAX_DEPTH = 100
"""Objects and lists within each other, of what is taken and of what is told. Pydantic itself writes no more than 255."""
CUT = "..."
"""Stands for what is deeper."""


def writable(value: Any, left: int = MAX_DEPTH) -> Any:
    """The same without what is nested deeper than so many objects and lists, and with `?` for halves of characters."""
    if isinstance(value, str):
        return _whole(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if not left:
        return CUT
    if isinstance(value, dict):
        return {_whole(name): writable(one, left - 1) for name, one in value.items()}
    return [writable(one, left - 1) for one in value]


def _whole(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


def _shallow(value: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [one for outer in level for one in _inside(outer)]
        if not level:
            return value
    raise ValueError(f"objects and lists are nested more than {MAX_DEPTH} deep")


def _inside(value: Any) -> list[Any]:
    """The objects and lists in an object or a list."""
    inner = value.values() if isinstance(value, dict) else value
    return [one for one in inner if isinstance(one, dict | list)]


TakenObject = Annotated[dict[str, Any], AfterValidator(_shallow)]
"""An object of any shape in a request. One that is too deep is refused."""
ToldObject = Annotated[dict[str, Any], BeforeValidator(writable)]
"""An object of any shape in an answer. See `writable`."""
ToldText = Annotated[str, BeforeValidator(writable)]
"""Text from anywhere in an answer. See `writable`."""
