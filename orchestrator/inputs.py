"""Freezing a run's inputs: whatever the task names becomes one `input.tar` of folders, files and links.

A task file may come from a stranger. So it reaches only what lies in its own folder, and Git repositories that anybody may
read; links are kept as links and never followed; and neither hooks nor configuration of a repository come along.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import BinaryIO, Final

from orchestrator.errors import BadInput
from orchestrator.spec import GitSource, InputSpec
from sandboxes.errors import ArchiveRefused
from sandboxes.workspace.archive import pack_folder
from sandboxes.workspace.foreign import normalize
from sandboxes.workspace.tarwriter import CHUNK, TarWriter

INPUT_TAR: Final = "input.tar"
INPUT_RECORD: Final = "input.json"
"""What was frozen: `{"kind": "path" | "git" | "archive", "source": ...}`, and of a repository its `ref` and `commit`."""


def freeze(inputs: InputSpec, base_dir: Path, target: Path, *, allow_outside: bool = False) -> None:
    """Write the inputs to `input.tar` in the folder `target`, and what they were to `input.json`.

    Paths begin in `base_dir` and may not leave it, unless a person named them on the command line (`allow_outside`).
    Raises `BadInput` for what is missing, outside, unsafe or too large, and `InfrastructureError` when a repository does not
    answer. Then neither file is there.
    """
    archive = target / INPUT_TAR
    try:
        with archive.open("w+b", buffering=CHUNK) as file:
            record = _pack(inputs, base_dir, target, file, allow_outside)
        (target / INPUT_RECORD).write_text(json.dumps(record))
    except BaseException as exc:
        archive.unlink(missing_ok=True)
        if isinstance(exc, ArchiveRefused):
            raise BadInput(f"inputs: {exc}") from exc
        if isinstance(exc, OSError):
            raise BadInput(f"inputs: cannot write {exc.filename or archive}: {exc.strerror}") from exc
        raise


def locate(name: str, key: str, base_dir: Path, *, allow_outside: bool = False) -> Path:
    """Where a path of a task file leads. Raises `BadInput`, naming `key`, when nothing is there or it is outside `base_dir`."""
    base = base_dir.resolve()
    given = Path(name)
    if not allow_outside and (given.is_absolute() or ".." in given.parts):
        raise BadInput(f"{key}: '{name}' must be a path inside the task file's folder {base}, without '..'")
    try:
        found = (base / given).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as exc:
        raise BadInput(f"{key}: '{name}' does not exist in {base}: make it, or correct the path") from exc
    if not allow_outside and not found.is_relative_to(base):
        raise BadInput(f"{key}: '{name}' is a link that leads out of the task file's folder, to {found}: copy it into {base}")
    return found


def _pack(inputs: InputSpec, base_dir: Path, target: Path, file: BinaryIO, allow_outside: bool) -> dict[str, str]:
    out = TarWriter(file)
    record = {"kind": "path", "source": inputs.path or ""}
    if inputs.path is not None:
        _pack_path(locate(inputs.path, "inputs.path", base_dir, allow_outside=allow_outside), inputs, target, out)
    elif inputs.archive is not None:
        found = locate(inputs.archive, "inputs.archive", base_dir, allow_outside=allow_outside)
        if not found.is_file():
            raise BadInput(f"inputs.archive: '{inputs.archive}' is not a file: give a tar or zip file, or use `inputs.path`")
        normalize(found, out, exclude=inputs.exclude)
        record = {"kind": "archive", "source": inputs.archive}
    elif inputs.git is not None:
        record = {"kind": "git", "ref": inputs.git.ref, **_pack_git(inputs.git, inputs, base_dir, target, out, allow_outside)}
    out.close()
    return record


def _pack_path(folder: Path, inputs: InputSpec, target: Path, out: TarWriter) -> None:
    from orchestrator.dotgit import GitFolders

    if not folder.is_dir():
        raise BadInput(f"inputs.path: '{inputs.path}' is not a folder: give a folder, or use `inputs.archive`")
    if target.resolve().is_relative_to(folder):
        raise BadInput(
            f"inputs.path: {folder} holds Fanfold's own state ({target.parent}), with other runs in it:"
            " give a smaller folder, or move the state with FANFOLD_HOME"
        )
    repositories = GitFolders()
    pack_folder(folder, out, exclude=inputs.exclude, keep=repositories.keep)
    repositories.write_configs(out)


def _pack_git(
    source: GitSource, inputs: InputSpec, base_dir: Path, target: Path, out: TarWriter, allow_outside: bool
) -> dict[str, str]:
    from orchestrator.gitsource import fetch, pack_commit, remote_of, without_password  # these import a Git library

    remote = remote_of(source.url)
    if remote is None:
        remote = str(locate(source.url, "inputs.git.url", base_dir, allow_outside=allow_outside))
    work = target / "input.git"
    try:
        commit = fetch(remote, source.ref, work)
        pack_commit(work, commit, out, exclude=inputs.exclude)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return {"source": without_password(source.url), "commit": commit}
