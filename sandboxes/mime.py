"""The MIME type of a file, by the extension of its name."""

from __future__ import annotations

import mimetypes
from typing import Final, Literal

from sandboxes.toolbox.helper.media import TYPES, extension

Medium = Literal["image", "audio", "video", "document"]

_TEXT: Final = {
    ".js": "text/javascript",
    ".json": "application/json",
    ".jsx": "text/javascript",
    ".md": "text/markdown",
    ".toml": "application/toml",
    ".ts": "text/typescript",
    ".tsx": "text/typescript",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
_STANDARD: Final = mimetypes.MimeTypes().types_map[True]
"""The standard library's own table, without what this machine adds to it: the same answers everywhere."""

UNKNOWN_TEXT: Final = "text/plain"
UNKNOWN_BINARY: Final = "application/octet-stream"


def medium(path: str) -> Medium | None:
    """What a file of this name is to a model that takes more than text; None when it is not in the seeds' table."""
    kind = TYPES.get(extension(path))
    if kind is None:
        return None
    family = kind.partition("/")[0]
    return family if family in ("image", "audio", "video") else "document"


def mime_type(path: str, *, binary: bool = False) -> str:
    """The MIME type of a file of this name. `binary` says what its content is, for the extensions that nobody knows."""
    known = extension(path)
    if known in TYPES:
        return str(TYPES[known])
    guessed = _TEXT.get(known) or _STANDARD.get(known)
    if guessed is None or (binary and guessed.startswith("text/")):
        return UNKNOWN_BINARY if binary else UNKNOWN_TEXT
    return guessed
