"""A repository's own folder, made fit to travel into a sandbox.

An agent wants `git log` and `git diff`. It must not get what a `.git` folder knows beyond that: hooks, remotes, and the
tokens that clones and CI systems leave in its configuration and its logs.
"""

from __future__ import annotations

import os
import re
from io import BytesIO
from pathlib import Path
from typing import Final

from orchestrator.errors import BadInput
from sandboxes.workspace.names import shown, to_text
from sandboxes.workspace.tarwriter import TarWriter

_LEFT_OUT: Final = frozenset(
    [b"hooks", b"config", b"config.worktree", b"FETCH_HEAD", b"logs", b"branches", b"remotes", b"description"]
)
_KEPT_KEYS: Final = frozenset(
    f"core.{name}"
    for name in ("repositoryformatversion", "filemode", "bare", "ignorecase", "symlinks", "autocrlf", "eol", "worktree")
) | {"core.sparsecheckout", "core.sparsecheckoutcone", "extensions.objectformat", "extensions.refstorage"}
_PLAIN_VALUE: Final = re.compile(r"(?!/)[\w./ -]{0,1000}")
"""Values that need no escapes and are no absolute paths."""
_LINK_CAP: Final = 4096
"""Bytes of a `.git` file that are looked at."""


class GitFolders:
    """Tells what of the `.git` folders below a folder is packed, and remembers whose configuration is to be written anew."""

    def __init__(self) -> None:
        self._configs: list[tuple[bytes, bytes]] = []

    def keep(self, path: bytes, entry: os.DirEntry[bytes]) -> bool:
        """Whether an entry goes into the archive; for `pack_folder`."""
        if entry.name == b".git" and entry.is_file(follow_symlinks=False):
            return _leads_nearby(entry.path)
        if entry.name not in _LEFT_OUT or b"/.git/" not in b"/" + path or not _is_git_folder(entry.path):
            return True
        if entry.name == b"config" and entry.is_file(follow_symlinks=False):
            self._configs.append((path, entry.path))
        return False

    def write_configs(self, out: TarWriter) -> None:
        """Add what is kept of the configurations. Raises `BadInput` for one that cannot be read."""
        for path, source in self._configs:
            content = _plain_config(source).encode()
            out.file(to_text(path), len(content), BytesIO(content).read)


def minimal_config(keys: dict[str, str]) -> str:
    """A Git configuration with these keys (`section.name`)."""
    lines: list[str] = []
    for key, value in sorted(keys.items()):
        section, _, name = key.partition(".")
        lines += [f"[{section}]", f"\t{name} = {value}"]
    return "\n".join(lines) + "\n"


def _is_git_folder(path: bytes) -> bool:
    """Whether the folder of this path is a repository's: a branch may be named `hooks`, too."""
    folder = Path(to_text(path)).parent
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _leads_nearby(path: bytes) -> bool:
    """Whether a `.git` file points to a relative place. One of a linked worktree names a folder that the sandbox has not."""
    try:
        with Path(to_text(path)).open("rb") as file:
            return re.match(rb"gitdir: (?!/)", file.read(_LINK_CAP)) is not None
    except OSError:
        return False


def _plain_config(path: bytes) -> str:
    import pygit2

    try:
        config = pygit2.Config(to_text(path))
        keys = {entry.name.lower(): str(entry.value or "true") for entry in config if entry.name.lower() in _KEPT_KEYS}
    except (pygit2.GitError, OSError, ValueError) as exc:
        raise BadInput(f"inputs.path: cannot read {shown(path)} ({exc}): mend it, or exclude .git") from exc
    return minimal_config({key: value for key, value in keys.items() if _PLAIN_VALUE.fullmatch(value)})
