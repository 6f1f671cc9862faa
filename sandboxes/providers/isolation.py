"""What separates the sandboxes of a provider from the machine, and from each other: a coarse order of three."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

Isolation = Literal["process", "container", "machine"]
"""`process`: namespaces of one machine. `container`: a container of an engine, whatever its runtime. `machine`: another one."""

WEAKEST: Final[Isolation] = "process"

_RANKS: Final[Mapping[str, int]] = MappingProxyType({"process": 0, "container": 1, "machine": 2})


def is_weaker(one: Isolation, other: Isolation) -> bool:
    """Whether `one` separates less than `other`. What is not known counts as the weakest."""
    return _RANKS.get(one, 0) < _RANKS.get(other, 0)
