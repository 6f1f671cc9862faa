"""The state of a workspace as a value: a tree of Git blobs, with the id that Git would give it."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Final, Literal

from sandboxes.errors import ArchiveRefused
from sandboxes.workspace.manifest import FOLDER, LINK, Mode
from sandboxes.workspace.names import BadName, shown, split, to_bytes
from sandboxes.workspace.store import BlobStore, Extent, blob_id
from sandboxes.workspace.tarwriter import CHUNK

DEFAULT_EXCLUDE: Final = (".git",)
"""Names that are in no tree: a repository's own folder is not a part of the work."""
SUBMODULE: Final = "160000"
"""The mode of another repository's folder in a tree of Git's. No sandbox reports one: there it is a folder with files."""


@dataclass(frozen=True, slots=True)
class Node:
    """What is at a path: a file, an executable or a symbolic link, by the blob id of its content (or target).

    Of a submodule, `blob` is the id of its commit, of an empty folder `EMPTY_FOLDER`: neither is in a store, and `size` is 0.
    """

    mode: Mode | Literal["160000"]
    blob: str
    size: int


@dataclass(frozen=True)
class Tree:
    """Files and links by path, and those folders that are empty, where somebody told them. Other folders are only what their
    files make them."""

    entries: Mapping[str, Node] = field(default_factory=dict)

    @cached_property
    def files(self) -> Mapping[str, Node]:
        """The entries without empty folders, which Git does not know."""
        if not any(node.mode == FOLDER for node in self.entries.values()):
            return self.entries
        return {path: node for path, node in self.entries.items() if node.mode != FOLDER}

    @cached_property
    def id(self) -> str:
        """The id (SHA-1, hex) of the Git tree with these files."""
        root: _Folder = {}
        for path, node in self.files.items():
            *folders, name = to_bytes(path).split(b"/")
            here = root
            for folder in folders:
                here = here.setdefault(folder, {})  # type: ignore[assignment]
            here[name] = node
        return _hash_folder(root).hex()


@dataclass(frozen=True)
class BaseTree(Tree):
    """The state that a run starts from, with its contents."""

    store: BlobStore = field(kw_only=True)
    exclude: frozenset[str] = frozenset(DEFAULT_EXCLUDE)
    """Names of files and folders, at any depth, that are neither in this tree nor in any that is compared with it."""

    @classmethod
    def from_tar(cls, tar: Path, store: Path, *, exclude: Collection[str] = DEFAULT_EXCLUDE) -> BaseTree:
        """Read a tar that Fanfold wrote (`tarwriter`). Nothing is unpacked: contents are hashed and stay where they are.

        `store` is the folder for new contents; it is made. The tar must stay as it is as long as the tree is in use.
        Raises `ArchiveRefused` for another kind of tar.
        """
        entries: dict[str, Node] = {}
        extents: dict[str, Extent] = {}
        contents = BlobStore(store, tar, extents)
        excluded = frozenset(exclude)
        for path, info, file in _members(tar):
            if not excluded.isdisjoint(path.split("/")):
                continue
            if info.issym():
                target = to_bytes(info.linkname)
                entries[path] = Node(LINK, contents.put(target), len(target))
                continue
            blob = blob_id(_pieces(file, info), info.size)
            entries[path] = Node("100755" if info.mode & 0o100 else "100644", blob, info.size)
            extents[blob] = Extent(info.offset_data, info.size)
        return cls(entries, store=contents, exclude=excluded)

    @classmethod
    def empty(cls, store: Path, *, exclude: Collection[str] = DEFAULT_EXCLUDE) -> BaseTree:
        """The base of a run without inputs."""
        return cls(store=BlobStore(store), exclude=frozenset(exclude))


_Folder = dict[bytes, "Node | _Folder"]


def _hash_folder(folder: _Folder) -> bytes:
    """Hash a folder as Git does: entries sorted as if a folder's name ended in a slash. As deep as a path has parts."""
    records = []
    for name, content in folder.items():
        if isinstance(content, dict):
            records.append((name + b"/", b"40000 " + name + b"\0" + _hash_folder(content)))
        else:
            records.append((name, content.mode.encode() + b" " + name + b"\0" + bytes.fromhex(content.blob)))
    data = b"".join(record for _, record in sorted(records))
    return hashlib.sha1(b"tree %d\0" % len(data) + data, usedforsecurity=False).digest()


def _members(tar: Path) -> Iterator[tuple[str, tarfile.TarInfo, BinaryIO]]:
    """Files and links of a tar of ours, each with the open tar file."""
    try:
        with tar.open("rb") as file, tarfile.open(fileobj=file, mode="r:", errors="surrogateescape") as archive:
            while (info := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # a million of them would take a gigabyte
                if info.isdir():
                    continue
                if not (info.isreg() or info.issym()) or info.issparse() or info.size < 0:
                    raise ArchiveRefused(f"{tar} has {shown(info.name)} in it, which is neither a file nor a link")
                split(info.name)
                yield info.name, info, file
    except BadName as exc:
        raise ArchiveRefused(f"{tar} has a path in it that {exc}") from exc
    except (tarfile.TarError, EOFError, OSError) as exc:
        raise ArchiveRefused(f"cannot read {tar}: {exc}") from exc


def _pieces(file: BinaryIO, info: tarfile.TarInfo) -> Iterator[bytes]:
    file.seek(info.offset_data)
    left = info.size
    while left:
        piece = file.read(min(CHUNK, left))
        if not piece:
            raise ArchiveRefused(f"{file.name} is cut off, in {shown(info.name)}")
        left -= len(piece)
        yield piece
