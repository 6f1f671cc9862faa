"""Which file is merged by key where its lines conflict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sandboxes.workspace.merge.jsons import merge_json
from sandboxes.workspace.merge.pieces import merge_toml, merge_yaml
from sandboxes.workspace.mergepolicy import Driver

Merge = Callable[[bytes | None, bytes, bytes], bytes | None]
"""Base (None: there was none), ours, theirs; None when it is for the text merge."""

_DRIVERS: Final[Mapping[Driver, Merge]] = {"json": merge_json, "toml": merge_toml, "yaml": merge_yaml}
_BY_SUFFIX: Final[Mapping[str, Driver]] = {"json": "json", "toml": "toml", "yaml": "yaml", "yml": "yaml"}


def driver_for(driver: Driver, path: str) -> Merge | None:
    """What merges a file by key, if anything does."""
    return _DRIVERS.get(_BY_SUFFIX.get(path.rpartition(".")[2], "text") if driver == "auto" else driver)
