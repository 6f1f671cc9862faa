"""The data of an event, read without trust in its shape: much of it comes from a sandbox or a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Data:
    """Values by key; a value of another type than the asked one counts as none."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def text(self, key: str) -> str:
        """Text; empty when there is none."""
        value = self._data.get(key)
        return value if isinstance(value, str) else "" if value is None else str(value)

    def integer(self, key: str) -> int:
        """A whole number; 0 when there is none."""
        value = self._data.get(key)
        return value if isinstance(value, int) else 0

    def flag(self, key: str) -> bool:
        """Whether it is true."""
        return self._data.get(key) is True

    def mapping(self, key: str) -> Mapping[str, Any]:
        """A mapping; empty when there is none."""
        value = self._data.get(key)
        return value if isinstance(value, dict) else {}

    def items(self, key: str) -> list[Any]:
        """A list; empty when there is none."""
        value = self._data.get(key)
        return value if isinstance(value, list) else []
