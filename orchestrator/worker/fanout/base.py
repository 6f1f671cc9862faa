"""What a run's workspace held when it was forked: what is merged is told by it, and contents of it are fetched when needed."""

from __future__ import annotations

import asyncio
import gzip
import json
import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.runs.artifacts import ArtifactStore, one_piece
from orchestrator.runs.files import RESERVED
from orchestrator.runs.models import Artifact
from orchestrator.worker.fanout.commits import known_commits
from sandboxes.sandbox import FileEntry, Sandbox
from sandboxes.workspace.ignore import litter, rule_files
from sandboxes.workspace.known import Known
from sandboxes.workspace.manifest import check_manifest
from sandboxes.workspace.names import shown, to_bytes
from sandboxes.workspace.store import BlobStore, blob_id
from sandboxes.workspace.tree import DEFAULT_EXCLUDE, BaseTree, Node, Tree

CAP = 256 * 1024**2
"""Bytes of a base, packed."""
FETCH_TIMEOUT = 120.0
"""Seconds for one content of the base."""


class BaseChanged(Exception):
    """The workspace does not hold what the base tells of it: something went on in there while children worked on copies."""


@dataclass(frozen=True)
class Base:
    """The files, links and empty folders of a workspace, by path."""

    entries: Known
    exclude: tuple[str, ...]
    """Names of files and folders that are in no base, and in nothing that is compared with it."""
    rules: Mapping[str, str]
    """The texts of its files named `.gitignore`, by path: what is new and litter by them is nobody's work."""
    commits: tuple[str, ...]
    """Those at the ends of the branches of its repository, if it has one."""

    @classmethod
    async def of(cls, sandbox: Sandbox, exclude: Collection[str]) -> Base:
        """What a sandbox holds now. Raises `PatchRefused` for what cannot be."""
        names = tuple(sorted({*DEFAULT_EXCLUDE, *exclude}))
        told = await sandbox.manifest(sandbox.workdir, exclude=names, folders=True)
        entries = await asyncio.to_thread(check_manifest, told, names)
        paths = rule_files(entries.items())
        found = await sandbox.adownload_files([posixpath.join(sandbox.workdir, path) for path in paths])
        rules = {path: one.content.decode("utf-8", "replace") for path, one in zip(paths, found, strict=True) if one.content}
        return cls(Known(entries), names, rules, await known_commits(sandbox))

    async def keep(self, artifacts: ArtifactStore, run_id: str, key: str) -> Artifact:
        """Store it; what to record."""
        content = await asyncio.to_thread(self._packed)
        return await artifacts.keep(run_id, f"{RESERVED}{key}/base", one_piece(content), limit=CAP)

    def _packed(self) -> bytes:
        told = {"exclude": self.exclude, "rules": self.rules, "commits": self.commits}
        value = {"entries": [asdict(one) for one in self.entries.values()], **told}
        return gzip.compress(json.dumps(value).encode(), mtime=0)

    @classmethod
    def kept(cls, artifacts: ArtifactStore, sha256: str) -> Base:
        """What was stored. Raises `InfrastructureError` when it is not there."""
        with artifacts.open(sha256, verify=True) as file:
            value: dict[str, Any] = json.loads(gzip.decompress(file.read()))
        entries = Known((one["path"], FileEntry(**one)) for one in value["entries"])
        return cls(entries, tuple(value["exclude"]), value["rules"], tuple(value["commits"]))

    @cached_property
    def id(self) -> str:
        """That of the Git tree with these files."""
        return Tree(self._nodes).id

    @cached_property
    def _nodes(self) -> Mapping[str, Node]:
        return {path: Node(entry.mode, entry.blob, entry.size) for path, entry in self.entries.items()}

    def tree(self, store: BlobStore) -> BaseTree:
        """As a merge takes it."""
        return BaseTree(self._nodes, store=store, exclude=frozenset(self.exclude))

    def without_litter(self, entries: Iterable[FileEntry], scratch: Path) -> list[FileEntry]:
        """Those of these changed entries that are work; `scratch` is a folder to be made."""
        store = BlobStore(scratch)
        rules = {path: text.encode() for path, text in self.rules.items()}
        nodes = {path: Node("100644", store.put(text), len(text)) for path, text in rules.items()}
        with litter(BaseTree(nodes, store=store)) as is_litter:
            return [entry for entry in entries if entry.path in self.entries or not is_litter(entry.path)]


@dataclass(frozen=True)
class FetchingStore(BlobStore):
    """A store that has the contents of a base, too: they are fetched from the sandbox when they are asked for."""

    fetch: Callable[[str], bytes] = field(kw_only=True)
    """The content of a path of the base; in any thread but that of the event loop."""
    paths: Mapping[str, FileEntry] = field(kw_only=True)
    """Where each content is, by blob id."""

    @classmethod
    def over(cls, folder: Path, base: Base, sandbox: Sandbox) -> FetchingStore:
        """The contents of what `sandbox` held when the base was told of it. Call it on the event loop."""
        loop = asyncio.get_running_loop()

        def fetch(path: str) -> bytes:
            return asyncio.run_coroutine_threadsafe(_content(sandbox, path), loop).result(FETCH_TIMEOUT)

        return cls(folder, fetch=fetch, paths={entry.blob: entry for entry in base.entries.values()})

    def get(self, blob: str) -> bytes:
        """See `BlobStore`. Raises `BaseChanged` when the sandbox has something else there now."""
        try:
            return super().get(blob)
        except KeyError:
            entry = self.paths.get(blob)
            if entry is None:
                raise
        try:
            content = to_bytes(entry.target) if entry.target is not None else self.fetch(entry.path)
        except FileNotFoundError as exc:
            raise BaseChanged(f"{shown(entry.path)} is gone") from exc
        if blob_id([content], len(content)) != blob:
            raise BaseChanged(f"{shown(entry.path)} was changed")
        self.put(content)
        return content


async def _content(sandbox: Sandbox, path: str) -> bytes:
    pieces = sandbox.download_stream(posixpath.join(sandbox.workdir, path))
    return b"".join([piece async for piece in pieces])
