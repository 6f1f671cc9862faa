"""The helper as one file: a zip application made of `sandboxes.toolbox.helper`, the same bytes every time."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import zipfile
from functools import cache
from pathlib import Path

HELPER = Path(__file__).parent / "helper"
_MAIN = b"import sys\nfrom helper.__main__ import main\nsys.exit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNCHECKED = (1).to_bytes(4, "little")
"""Flags of byte code that goes by a hash of its source, which need not be compared: see PEP 552."""


@cache
def bundle() -> bytes:
    """The zip application. Run it with `python3 -I -S FILE serve ...` or `... connect ...`."""
    return _packed({}, zipfile.ZIP_DEFLATED)


@cache
def quick_bundle() -> bytes:
    """The same, larger, for where it is started often: a Python of this one's version need not unpack and compile it."""
    compiled = {f"{name}c": _compiled(name, source) for name, source in _sources().items()}
    return _packed(compiled, zipfile.ZIP_STORED)


@cache
def bundle_id() -> str:
    """A short hash of the sources: sandboxes made by different versions do not share a helper."""
    return hashlib.sha256(bundle()).hexdigest()[:16]


def _sources() -> dict[str, bytes]:
    return {f"helper/{path.name}": path.read_bytes() for path in sorted(HELPER.glob("*.py"))}


def _compiled(name: str, source: bytes) -> bytes:
    """What Python keeps in a `.pyc`; others than this Python leave it alone."""
    code = compile(source, name, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + marshal.dumps(code)


def _packed(more: dict[str, bytes], compression: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in {"__main__.py": _MAIN, **more, **_sources()}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, compression)
    return packed.getvalue()
