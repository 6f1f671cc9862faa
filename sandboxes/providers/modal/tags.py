"""Labels and what a handle tells, as tags of the platform: up to 63 letters, digits, dots, dashes and underscores.

A label is a tag of the same name, so that people and the platform's own filter find it; what cannot be a tag stands there as
its hash. The truth is in numbered tags beside them: all labels and all else that a handle tells, packed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

from sandboxes.errors import InvalidSpec

LONGEST: Final = 63
PARTS_CAP: Final = 60
"""Tags that what is packed may take."""
PACKED_CAP: Final = 64 * 1024
"""Bytes that it may have unpacked."""
_PART: Final = "_fanfold."
_HASH: Final = "_sha."
_TAG: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{LONGEST}}}")


def labels_as_tags(labels: Mapping[str, str]) -> dict[str, str]:
    """What the platform can filter by. Two labels may look alike there: whoever filters compares the labels themselves."""
    return {_word(key): _word(value) for key, value in labels.items()}


def _word(text: str) -> str:
    if _TAG.fullmatch(text) and not text.startswith((_PART, _HASH)):
        return text
    return _HASH + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:48]


def packed(told: Mapping[str, Any]) -> dict[str, str]:
    """Plain JSON as tags. Raises `InvalidSpec` when it is too much."""
    text = base64.urlsafe_b64encode(zlib.compress(json.dumps(told).encode(), 9)).decode().rstrip("=")
    parts = [text[at : at + LONGEST] for at in range(0, len(text), LONGEST)]
    if len(parts) > PARTS_CAP:
        raise InvalidSpec(
            f"the labels are too long for Modal's tags ({len(json.dumps(told))} bytes): give fewer or shorter ones"
        )
    return {f"{_PART}{number}": part for number, part in enumerate(parts)}


def unpacked(tags: Mapping[str, str]) -> dict[str, Any] | None:
    """What `packed` was given; None when these are not the tags of a sandbox of ours."""
    parts = {name.removeprefix(_PART): part for name, part in tags.items() if name.startswith(_PART)}
    try:
        text = "".join(parts[str(number)] for number in range(len(parts)))
        data = zlib.decompressobj().decompress(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), PACKED_CAP)
        told = json.loads(data)
    except (KeyError, ValueError, zlib.error):
        return None
    return told if isinstance(told, dict) else None
