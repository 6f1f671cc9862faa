"""Searches over plain exec: `find` and `grep` narrow down, and the same pure functions as in the helper decide."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Final, Literal

from sandboxes import protocol as p
from sandboxes.errors import ProtocolError
from sandboxes.sandbox import FileEntry
from sandboxes.toolbox.helper import files, media, search, text
from sandboxes.toolbox.shell_files import BATCH, ShellFiles
from sandboxes.toolbox.shell_wire import ANSWER_CAP, Channel, body, ending, plain, records, word
from sandboxes.workspace.changes import STAGING
from sandboxes.workspace.manifest import EMPTY_FOLDER, FOLDER
from sandboxes.workspace.names import parents

MANIFEST_SECONDS: Final = 900.0
"""How long a manifest may take: every file is hashed by a process of its own."""
MANIFEST_BYTES: Final = 512 * 1024 * 1024
NARROW: Final = 256
"""Bytes of a pattern that `grep` gets."""
_FILE = re.compile(rb"([0-9a-f]{1,8}):(\d{1,18}) ([0-9a-f]{40}) [ *]-\n(/[^\0]*?)///\n", re.DOTALL)
_FOLDER = re.compile(rb"D (/[^\0]*?)///\n", re.DOTALL)
_LINK = re.compile(rb"L (\d{1,5}) (/[^\0]*?)///\n", re.DOTALL)


class ShellSearch:
    """Searches below checked, absolute paths. They raise `text.Refused`, or `SandboxError`."""

    def __init__(self, channel: Channel, shell_files: ShellFiles) -> None:
        self._channel = channel
        self._files = shell_files

    async def glob(self, pattern: str, root: str) -> p.GlobResult:
        """Regular files below `root` that match."""
        matches = text.glob_matcher(pattern)
        listing, code = ending(body(await self._channel.call("walk", args=(word(root), ANSWER_CAP // 2)), root))
        found = [
            files.describe(path, status)
            for path, status in records(listing)
            if status.is_regular and matches(_relative(path, root))
        ]
        found.sort(key=lambda info: str(info["path"]))
        reason: Literal["budget", "unreadable", "transport"] | None = (
            "transport" if code is None else "budget" if len(found) > search.MATCHES else "unreadable" if code else None
        )
        return p.GlobResult(
            matches=found[: search.MATCHES], truncated=reason is not None, truncation_reason=reason
        )

    async def grep(self, pattern: str, root: str, glob: str | None, max_count: int | None) -> p.GrepResult:
        """Lines with `pattern` in the text files below `root`, or in the file `root`."""
        if not pattern:
            raise text.Refused("invalid_argument", "Error: the pattern must not be empty")
        wanted = pattern.encode("utf-8", "surrogateescape")
        paths, complete = await self._candidates(wanted, root, glob)
        limit = search.MATCHES if max_count is None else max(0, min(max_count, search.MATCHES))
        found: list[p.GrepMatch] = []
        shown = 0
        for at in range(0, len(paths), BATCH):
            batch = paths[at : at + BATCH]
            for path, content in zip(batch, await self._files.fetch(batch, search.FILE_CAP, only_text=True), strict=True):
                if isinstance(content, Exception):
                    continue
                for line, said in text.grep_lines(content, wanted, limit + 1 - len(found)):
                    found.append(p.GrepMatch(path=path, line=line, text=said))
                    shown += len(said)
                if len(found) > limit or shown > search.BYTES:
                    return p.GrepResult(matches=found[:limit], truncated=True)
        return p.GrepResult(matches=found, truncated=not complete)

    async def _candidates(self, wanted: bytes, root: str, glob: str | None) -> tuple[list[str], bool]:
        """Files that may hold the text, sorted, and whether these are all."""
        matches = text.glob_matcher(glob) if glob else None

        def wanted_file(path: str, relative: str) -> bool:
            return not media.is_media(path) and (matches is None or bool(matches(relative)))

        # grep takes each line of a pattern as a pattern, and is slow with long ones: a part of one is enough to narrow down.
        line = max(wanted.split(b"\n"), key=len)[:NARROW]
        args = (word(root), len(line) and len(line) + 1, ANSWER_CAP // 2)
        answer = await self._channel.call("grep", args=args, stdin=line and line + b"\n")
        if answer == b"one\n":
            return [path for path in [root] if wanted_file(path, root.rpartition("/")[2])], True
        listing, code = ending(body(answer, root))
        paths = [path for path in _names(listing, root) if wanted_file(path, _relative(path, root))]
        return sorted(paths), code is not None

    async def manifest(
        self, root: str, exclude: Sequence[str], folders: bool = False, closed: Sequence[str] = ()
    ) -> list[FileEntry]:
        """Files and links below `root`, sorted, without what is at the `closed` paths; with `folders` the empty ones too."""
        names = [f"-name={STAGING}*", *(f"-name={_literally(name)}" for name in exclude)]
        left_out = [word(one) for one in (*names, *(f"-path={_literally(path)}" for path in closed))]
        answer = await self._channel.call(
            "manifest", args=(word(root), int(folders), *left_out), cap=MANIFEST_BYTES, seconds=MANIFEST_SECONDS
        )
        listing, code = ending(body(answer, root))
        if code != 0:
            raise text.Refused("permission_denied", f"Error: something below '{root}' cannot be read")
        return sorted(_entries(listing, root), key=lambda entry: os.fsencode(entry.path))


def _relative(path: str, root: str) -> str:
    return path.removeprefix(root.rstrip("/") + "/")


def _names(listing: bytes, root: str) -> list[str]:
    """Names, one in each line. Each begins with `ROOT/./`, which is nowhere else, so that a newline may be part of one."""
    prefix = os.fsencode(root.rstrip("/") + "/./")
    return [plain(prefix + name) for name in (b"\n" + listing).removesuffix(b"\n").split(b"\n" + prefix)[1:]]


def _literally(name: str) -> str:
    """A pattern that this name alone matches."""
    return re.sub(r"([\\*?\[])", r"\\\1", name)


def _entries(listing: bytes, root: str) -> list[FileEntry]:
    found: list[FileEntry] = []
    folders: list[str] = []
    at = 0
    while at < len(listing):
        if file := _FILE.match(listing, at):
            mode: Literal["100755", "100644"] = "100755" if int(file[1], 16) & 0o100 else "100644"
            found.append(FileEntry(_relative(plain(file[4]), root), mode, int(file[2]), file[3].decode()))
            at = file.end()
        elif link := _LINK.match(listing, at):
            size = int(link[1])
            target = listing[link.end() : link.end() + size]
            blob: Any = search.blob_id(size, [target])
            found.append(FileEntry(_relative(plain(link[2]), root), "120000", size, blob, os.fsdecode(target)))
            at = link.end() + size + 1
        elif folder := _FOLDER.match(listing, at):
            folders.append(_relative(plain(folder[1]), root))
            at = folder.end()
        else:
            raise ProtocolError(f"a script in the sandbox sent a manifest with {listing[at : at + 80]!r}")
    filled = {above for path in (*folders, *(entry.path for entry in found)) for above in parents(path)}
    return found + [FileEntry(path, FOLDER, 0, EMPTY_FOLDER) for path in folders if path not in filled]

