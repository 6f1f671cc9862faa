"""A bucket as an agent's files: `S3Backend("my-bucket", "agents/7")` shows `s3://my-bucket/agents/7/notes.md` as `/notes.md`.

Needs `pip install s3fs`. Any other filesystem of fsspec will do: `S3Backend("folder", filesystem=fsspec.filesystem("gcs"))`.
A file is created by one of many that try at the same time. Edits of one file by several processes are not kept apart: there
the last one wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from sandboxes.backends import KeyValueBackend
from sandboxes.backends.keyed.filedata import content_of
from sandboxes.backends.keyed.operations import below, checked
from sandboxes.protocol import FileData, FileInfo, LsResult, WriteResult, encoded
from sandboxes.toolbox.helper.files import exists
from sandboxes.toolbox.helper.text import Refused

PAGE = 50
"""Objects that are fetched at once."""


class Objects(KeyValueBackend):
    """The objects below `root` (a bucket, or a folder in one) of an fsspec filesystem; `mode` says how they are written."""

    path_cap = 900  # a key has at most 1,024 bytes, the prefix's among them

    def __init__(self, filesystem: Any, root: str, mode: str = "overwrite") -> None:
        super().__init__()
        self.filesystem = filesystem
        self.root = root
        self._mode = mode

    def _key(self, path: str) -> str:
        # s3fs takes `?versionId=` in a name for a version of another object.
        return self.root + path.replace("%", "%25").replace("?", "%3F")

    def _info(self, found: Mapping[str, Any]) -> FileInfo:
        """An entry of a listing; `found` has the names and the times that its filesystem gives."""
        name = "/" + str(found["name"]).strip("/").removeprefix(self.root.strip("/")).strip("/")
        path = name.replace("%3F", "?").replace("%25", "%")
        if found["type"] == "directory":
            return FileInfo(path=path + "/", is_dir=True)
        info = FileInfo(path=path, is_dir=False, size=int(found["size"] or 0))
        modified = found.get("LastModified") or found.get("mtime") or found.get("created")
        if isinstance(modified, datetime):
            info["modified_at"] = modified.astimezone(UTC).isoformat(timespec="microseconds")
        return info

    def _fetched(self, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """The objects that are there, many at once. fsspec's `cat` of many would take `*` in a name for a pattern."""
        for start in range(0, len(paths), PAGE):
            page = paths[start : start + PAGE]
            contents = self.filesystem.cat_ranges([self._key(path) for path in page], None, None)
            for path, content in zip(page, contents, strict=True):
                if isinstance(content, bytes):
                    yield path, content
                elif not isinstance(content, FileNotFoundError | IsADirectoryError):
                    raise cast("Exception", content)

    def _file(self, info: FileInfo, content: bytes) -> FileData:
        data = encoded(info["path"], content)
        if "modified_at" in info:
            data["modified_at"] = info["modified_at"]
        return data

    def load(self, path: str) -> FileData | None:
        """One object."""
        try:
            info = self._info(self.filesystem.info(self._key(path)))
            return None if info["is_dir"] else self._file(info, self.filesystem.cat_file(self._key(path)))
        except FileNotFoundError:
            return None

    def load_all(self, paths: Sequence[str]) -> dict[str, FileData]:
        """Objects, at once; their times are not asked for."""
        return {path: encoded(path, content) for path, content in self._fetched(paths)}

    def save(self, files: Mapping[str, FileData]) -> None:
        """Put objects."""
        for path, kept in files.items():
            try:
                self.filesystem.pipe_file(self._key(path), content_of(path, kept), mode=self._mode)
            except FileExistsError:
                raise exists(path) from None

    def remove(self, paths: Sequence[str]) -> None:
        """Remove objects, each by its name: fsspec's `rm` of many would take `*` in a name for a pattern."""
        for path in paths:
            self.filesystem.rm_file(self._key(path))

    def listing(self, prefix: str) -> Iterator[FileInfo]:
        """What the bucket lists, without asking for the objects."""
        found = self.filesystem.find(self._key(prefix.rstrip("/")), detail=True)
        listed = (self._info(entry) for entry in found.values())
        return (info for info in listed if info["path"].startswith(prefix) and not info["is_dir"])

    def scan(self, prefix: str) -> Iterator[tuple[str, FileData]]:
        """The objects that are listed, some at a time."""
        listed = {info["path"]: info for info in self.listing(prefix)}
        for path, content in self._fetched(list(listed)):
            yield path, self._file(listed[path], content)


class S3Backend(Objects):
    """Files in `bucket`, below `prefix`. Credentials and region are s3fs's: environment, configuration files, role."""

    def __init__(self, bucket: str, prefix: str = "", *, filesystem: Any = None) -> None:
        if filesystem is None:
            from s3fs import S3FileSystem

            filesystem = S3FileSystem(use_listings_cache=False)
        super().__init__(filesystem, f"{bucket.rstrip('/')}/{prefix.strip('/')}".rstrip("/"))

    def ls(self, path: str) -> LsResult:
        """One level, which the bucket lists by itself."""
        try:
            folder = below(checked(path))
            found = self.filesystem.ls(self._key(folder.rstrip("/")), detail=True, refresh=True)
        except (Refused, FileNotFoundError, NotADirectoryError):
            return super().ls(path)
        entries = [info for info in map(self._info, found) if info["path"].startswith(folder) and info["path"] != folder]
        return LsResult(entries=sorted(entries, key=lambda info: info["path"])) if entries else super().ls(path)

    def write(self, file_path: str, content: str) -> WriteResult:
        """Create a file. The bucket decides who creates it, so that many machines may try."""
        return Objects(self.filesystem, self.root, mode="create").write(file_path, content)
