"""The helper as one file: a zip application made of `sandboxes.toolbox.helper`, the same bytes every time."""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path

HELPER = Path(__file__).parent / "helper"
_MAIN = b"import sys\nfrom helper.__main__ import main\nsys.exit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@cache
def bundle() -> bytes:
    """The zip application. Run it with `python3 -I -S FILE serve ...` or `... connect ...`."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), _MAIN)
        for source in sorted(HELPER.glob("*.py")):
            archive.writestr(zipfile.ZipInfo(f"helper/{source.name}", _EPOCH), source.read_bytes())
    return packed.getvalue()


@cache
def bundle_id() -> str:
    """A short hash of the bundle: sandboxes made by different versions do not share a helper."""
    return hashlib.sha256(bundle()).hexdigest()[:16]
