"""Which new files are work, and which are litter: the rules of `.gitignore`, as Git applies them to untracked files.

A file that was in the base is always work. A new one is litter when a `.gitignore` of the base says so, or when it is what
interpreters and package managers leave behind.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

import pygit2

from sandboxes.workspace.manifest import FOLDER, LINK, FileEntry
from sandboxes.workspace.tree import BaseTree, Node

LITTER: Final = (
    "__pycache__/",
    "*.pyc",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".hypothesis/",
    ".tox/",
    ".venv/",
    "node_modules/",
    ".DS_Store",
)
"""Patterns of what tools leave behind, in the form of `.gitignore`. A base's own `.gitignore` may take them back (`!`)."""

_FILE_CAP: Final = 64 * 1024
"""Bytes of a `.gitignore` that is heeded; a larger one is data, not rules."""
_FILES_CAP: Final = 1000
"""Files named `.gitignore` that are heeded."""


@contextmanager
def litter(base: BaseTree) -> Iterator[Callable[[str], bool]]:
    """A function that tells whether a path that is not in `base` is litter."""
    with _repository(LITTER) as repository:
        _write_rules(base, Path(repository.workdir))
        yield _matcher(repository)


@contextmanager
def matching(patterns: Iterable[str]) -> Iterator[Callable[[str], bool]]:
    """A function that tells whether a path matches `patterns`, read as the lines of a `.gitignore` at the top."""
    with _repository(patterns) as repository:
        yield _matcher(repository)


@contextmanager
def _repository(patterns: Iterable[str]) -> Iterator[pygit2.Repository]:
    with tempfile.TemporaryDirectory(prefix="fanfold-ignore-") as name:
        folder = Path(name).resolve()
        repository = pygit2.init_repository(str(folder))
        repository.config["core.excludesfile"] = "/dev/null"  # the rules of whoever runs the worker are not the task's
        exclude = folder / ".git" / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        exclude.write_bytes("\n".join((*patterns, "")).encode("utf-8", "replace"))
        yield repository


def _matcher(repository: pygit2.Repository) -> Callable[[str], bool]:
    return lambda path: repository.path_is_ignored(path.encode("utf-8", "replace").decode())


def rule_files(files: Iterable[tuple[str, Node | FileEntry]]) -> list[str]:
    """The paths of those of these files and links whose rules are heeded."""
    found = (path for path, one in files if path.rpartition("/")[2] == ".gitignore" and _is_heeded(one))
    return list(islice(found, _FILES_CAP))


def _is_heeded(one: Node | FileEntry) -> bool:
    return one.mode not in (LINK, FOLDER) and one.size <= _FILE_CAP


def _write_rules(base: BaseTree, folder: Path) -> None:
    for path in rule_files(base.files.items()):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(base.store.get(base.files[path].blob))
