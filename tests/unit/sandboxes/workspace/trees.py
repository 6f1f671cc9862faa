"""Workspaces for tests: as values, on disk, as a sandbox would report them, and as Git sees them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from sandboxes.workspace import fetching
from sandboxes.workspace.archive import pack_folder
from sandboxes.workspace.manifest import EMPTY_FOLDER, FileEntry, Mode
from sandboxes.workspace.names import to_text
from sandboxes.workspace.store import blob_id
from sandboxes.workspace.tarwriter import TarWriter
from sandboxes.workspace.tree import BaseTree

FILE: Mode = "100644"
EXECUTABLE: Mode = "100755"
LINK: Mode = "120000"
FOLDER: Mode = "040000"
"""An empty one; its content is b""."""

Files = dict[bytes, tuple[Mode, bytes]]
"""A workspace: path -> (mode, content or target)."""


def write_files(folder: Path, files: Files) -> Path:
    folder.mkdir(exist_ok=True)
    for path, (mode, content) in files.items():
        full = folder / os.fsdecode(path)
        full.parent.mkdir(parents=True, exist_ok=True)
        if mode == LINK:
            os.symlink(content, full)  # noqa: PTH211 - a Path would tidy the target up
            continue
        if mode == FOLDER:
            full.mkdir()
            continue
        full.write_bytes(content)
        full.chmod(0o755 if mode == EXECUTABLE else 0o644)
    return folder


def read_files(folder: Path) -> Files:
    found: Files = {}
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        links = [name for name in folders if Path(here, name).is_symlink()]
        for full in (Path(here, name) for name in names + links):
            path = os.fsencode(full.relative_to(folder))
            if full.is_symlink():
                found[path] = (LINK, os.fsencode(os.readlink(full)))  # noqa: PTH115 - a Path would tidy the target up
            else:
                found[path] = (EXECUTABLE if full.stat().st_mode & 0o100 else FILE, full.read_bytes())
    return found


def base_of(files: Files, place: Path) -> BaseTree:
    """The base tree of a workspace, by the way that a run's inputs go: folder, tar, tree."""
    folder = write_files(place / "folder", files)
    with (place / "input.tar").open("w+b") as file:
        out = TarWriter(file)
        pack_folder(folder, out)
        out.close()
    return BaseTree.from_tar(place / "input.tar", place / "store")


def entry(path: bytes, mode: Mode, content: bytes) -> FileEntry:
    target = to_text(content) if mode == LINK else None
    blob = EMPTY_FOLDER if mode == FOLDER else blob_id([content], len(content))
    return FileEntry(to_text(path), mode, len(content), blob, target)


def manifest_of(files: Files) -> list[FileEntry]:
    return [entry(path, mode, content) for path, (mode, content) in sorted(files.items())]


Stream = Callable[[str], AsyncIterator[bytes]]


class Source:
    """Serves contents as a sandbox does that knows nothing faster than a stream for each; `calls` are those for small ones."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.calls: list[Sequence[tuple[str, int]]] = []

    def download_stream(self, path: str) -> AsyncIterator[bytes]:
        """See `Sandbox`."""
        return self._stream(path)

    async def download_small(self, files: Sequence[tuple[str, int]]) -> list[bytes | OSError | None]:
        """See `Sandbox`."""
        self.calls.append(files)
        return [await self._small(path, size) for path, size in files]

    async def _small(self, path: str, size: int) -> bytes | OSError | None:
        content = b""
        try:
            async for piece in self._stream(path):
                content += piece
                if len(content) > size:
                    return None
        except OSError as exc:
            return exc
        return content


def served(stream: Stream) -> fetching.Files:
    """The files that a stream for each path gives."""
    return fetching.Files(Source(stream), "")


def fetch_from(files: Files, asked: list[str] | None = None) -> fetching.Files:
    """Serves contents as a sandbox does, in small pieces, and notes in `asked` what was asked for."""

    async def fetch(path: str) -> AsyncIterator[bytes]:
        if asked is not None:
            asked.append(path)
        mode, content = files.get(os.fsencode(path), (LINK, b""))
        if mode == LINK:
            raise FileNotFoundError(path)
        for at in range(0, len(content), 1000):
            yield content[at : at + 1000]

    return served(fetch)


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run git in a folder, without anybody's configuration. Its complaint is the failure's message."""
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    environment |= {"GIT_CEILING_DIRECTORIES": str(folder.parent), "HOME": str(folder)}
    environment |= {f"GIT_{who}_{what}": "tester" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(["git", *arguments], cwd=folder, input=stdin, env=environment, capture_output=True, timeout=60)
    if done.returncode:
        raise AssertionError(f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace')}")
    return done.stdout
