"""A local folder as a tree with its contents, and a tree as a local folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from sandboxes.workspace.archive import pack_folder
from sandboxes.workspace.manifest import FOLDER, LINK
from sandboxes.workspace.names import parents, to_bytes
from sandboxes.workspace.tarwriter import TarWriter
from sandboxes.workspace.tree import DEFAULT_EXCLUDE, SUBMODULE, BaseTree, Tree

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_folder(folder: Path, tar: Path, store: Path, *, exclude: Collection[str] = DEFAULT_EXCLUDE) -> BaseTree:
    """What is in a folder now. Its contents are copied to `tar`, a file to be made, and several may share a `store`.

    Raises `ArchiveRefused` for what cannot be read, or be in a workspace.
    """
    with tar.open("w+b") as file:
        out = TarWriter(file)
        pack_folder(folder, out, exclude=exclude)
        out.close()
    return BaseTree.from_tar(tar, store, exclude=exclude)


def write_folder(tree: Tree, get: Callable[[str], bytes], folder: Path, *, before: Callable[[], None] | None = None) -> None:
    """Make a folder of a tree: all of it or nothing. `folder` must not be there, or be empty, and its parent must be there.

    `get` gives a content by its blob id. `before` is called when everything is written and nothing is there yet to be seen.
    A submodule becomes an empty folder, as in a fresh clone. Raises `OSError`.
    """
    place = folder.resolve()
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        _fill(tree, get, os.fsencode(draft))
        if before is not None:
            before()
        umask = os.umask(0)
        os.umask(umask)
        draft.chmod(0o777 & ~umask)
        draft.rename(place)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _fill(tree: Tree, get: Callable[[str], bytes], folder: bytes) -> None:
    made: set[str] = set()
    for path, node in sorted(tree.entries.items()):
        for above in reversed([*parents(path)]):
            if above not in made:
                os.mkdir(os.path.join(folder, to_bytes(above)))  # noqa: PTH102, PTH118 - names are bytes here
                made.add(above)
        place = os.path.join(folder, to_bytes(path))  # noqa: PTH118
        if node.mode in (SUBMODULE, FOLDER):
            os.mkdir(place)  # noqa: PTH102
        elif node.mode == LINK:
            os.symlink(get(node.blob), place)  # noqa: PTH211
        else:
            with os.fdopen(os.open(place, _NEW, 0o777 if node.mode == "100755" else 0o666), "wb") as file:
                file.write(get(node.blob))
