"""Ids of sandboxes and snapshots, whichever provider makes them."""

from __future__ import annotations

import re
import secrets


def new_sandbox_id() -> str:
    """`sbx-` and 16 hexadecimal digits: short enough for every platform's names."""
    return "sbx-" + secrets.token_hex(8)


def is_sandbox_id(text: str) -> bool:
    """Whether this can be an id of ours. An id comes from a handle, which may be forged: check it before it names a thing."""
    return re.fullmatch(r"sbx-[0-9a-f]{16}", text) is not None


def new_snapshot_id() -> str:
    """`snp-` and 16 hexadecimal digits."""
    return "snp-" + secrets.token_hex(8)


def is_snapshot_id(text: str) -> bool:
    """Whether this can be the id of a snapshot of ours; see `is_sandbox_id`."""
    return re.fullmatch(r"snp-[0-9a-f]{16}", text) is not None
