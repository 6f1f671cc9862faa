"""A folder of objects on any filesystem of fsspec: a local folder, a bucket. The one place where its errors are translated.

An object appears under its key whole or not at all. A local folder gets it by a rename; a bucket shows an upload when it is
complete; on any other filesystem it is uploaded under another name and renamed.
"""

from __future__ import annotations

import posixpath
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator.errors import BadInput, FanfoldError, InfrastructureError

BUCKETS = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Protocols whose uploads are seen when they are complete; a folder there needs not be made."""
UPLOAD_PART = 8 * 1024 * 1024
"""Bytes of one part of an upload to S3, `UPLOADS` of which are in memory."""
UPLOADS = 4
"""Parts of one file that are uploaded at the same time."""
_TIMES = ("LastModified", "mtime", "last_modified", "created")


@dataclass(frozen=True)
class ObjectInfo:
    """An object that is there."""

    size: int
    """Bytes."""
    modified: float
    """When it was written, in seconds since 1970. Now, when the filesystem does not tell."""


class Objects:
    """The objects below `url`. Every failure is an `InfrastructureError` that says where and what to do."""

    def __init__(self, url: str) -> None:
        """Raises `BadInput` for an address that cannot be one; nothing is asked of the place yet."""
        self.url = url.rstrip("/")
        self._protocol = _protocol(url)
        self._fs, self._root = _filesystem(url, self._protocol)
        self.folder = Path(self._root) if self._protocol == "file" else None
        """The folder, when it is one of this machine."""

    def place(self, key: str) -> Path | str:
        """Where an object is: a path of this machine, or an address."""
        return self.folder / key if self.folder else f"{self.url}/{key}"

    def info(self, key: str) -> ObjectInfo | None:
        """An object, or None when there is none under this key."""
        with self._translated():
            try:
                return _info(self._fs.info(self._name(key)))
            except FileNotFoundError:
                return None

    def read(self, key: str, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`; fewer when the object is shorter."""
        with self._translated():
            content: bytes = self._fs.cat_file(self._name(key), start=start, end=end)
            return content

    def put(self, source: Path, key: str) -> None:
        """Make a local file an object, over one that is there. In a local `folder` the file itself becomes it."""
        target = self._name(key)
        with self._translated():
            if self.folder:
                self._fs.mv(str(source), target)
            elif self._protocol in BUCKETS:
                self._upload(source, target)
            else:
                part = self._name(f".part-{secrets.token_hex(8)}")
                self._fs.makedirs(posixpath.dirname(target), exist_ok=True)
                self._upload(source, part)
                self._fs.mv(part, target)

    def _upload(self, source: Path, target: str) -> None:
        limits = {"chunksize": UPLOAD_PART, "max_concurrency": UPLOADS} if self._protocol in ("s3", "s3a") else {}
        self._fs.put_file(str(source), target, **limits)

    def remove(self, key: str) -> None:
        """Remove an object; one that is not there is fine."""
        with self._translated():
            try:
                self._fs.rm_file(self._name(key))
            except FileNotFoundError:
                return

    def listing(self, prefix: str) -> Iterator[tuple[str, ObjectInfo]]:
        """The names and facts of the objects directly in a folder; none when it is not there."""
        with self._translated():
            try:
                found = self._fs.ls(self._name(prefix), detail=True)
            except FileNotFoundError:
                return
        for entry in found:
            if entry["type"] == "file":
                yield posixpath.basename(str(entry["name"])), _info(entry)

    def _name(self, key: str) -> str:
        return f"{self._root.rstrip('/')}/{key}"

    @contextmanager
    def _translated(self) -> Iterator[None]:
        # What a filesystem raises has no common base: S3's client has its own tree, and so has its HTTP client.
        try:
            yield
        except FanfoldError:
            raise
        except FileNotFoundError as exc:
            raise InfrastructureError(
                f"artifacts at {self.url}: the folder or bucket, or something in it, is not there ({exc});"
                " make it, or set FANFOLD_ARTIFACTS_URL"
            ) from exc
        except PermissionError as exc:
            raise InfrastructureError(
                f"artifacts at {self.url}: access was refused ({exc}); check the credentials and the rights there"
            ) from exc
        except Exception as exc:
            raise InfrastructureError(
                f"artifacts at {self.url}: they cannot be read or written ({type(exc).__name__}: {exc});"
                " check that it can be reached and has room"
            ) from exc


def _protocol(url: str) -> str:
    match = re.match(r"(?:([a-z][a-z0-9+.-]*)://)?(.+)", url)
    if match is None or "::" in url or (match[1] is None and not url.startswith("/")):
        raise BadInput(
            f"FANFOLD_ARTIFACTS_URL {url!r}: write a folder's absolute path, or an address such as s3://bucket/prefix"
        )
    if re.match(r"[^/]*:[^/]*@", match[2]):
        raise BadInput("FANFOLD_ARTIFACTS_URL: an address with a password in it would be shown; give the password another way")
    return "file" if match[1] in (None, "file", "local") else str(match[1])


def _filesystem(url: str, protocol: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs  # it takes as long as all the rest of a command line

    # A filesystem of our own: fsspec would share one with whoever asked for the same, and keep its listings.
    options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    if protocol == "file":
        options["auto_mkdir"] = True
    try:
        filesystem, root = url_to_fs(url, **options)
    except ImportError as exc:
        extra = "fanfold[s3]" if protocol in ("s3", "s3a") else "the package that fsspec asks for"
        raise BadInput(f"FANFOLD_ARTIFACTS_URL {url!r}: install {extra} for {protocol}:// ({exc})") from exc
    except Exception as exc:
        raise BadInput(f"FANFOLD_ARTIFACTS_URL {url!r}: this is no place for artifacts: {exc}") from exc
    if not root.strip("/"):
        raise BadInput(f"FANFOLD_ARTIFACTS_URL {url!r}: a folder or a bucket is missing, as in s3://bucket/prefix")
    return filesystem, root


def _info(found: Mapping[str, Any]) -> ObjectInfo:
    told = next((found[name] for name in _TIMES if found.get(name)), None)
    modified = told.timestamp() if isinstance(told, datetime) else told
    return ObjectInfo(int(found["size"] or 0), float(modified) if isinstance(modified, int | float) else time.time())
