"""A Git repository at a ref as a run's input: fetched shallow, never checked out here.

The working tree is written to the tar straight from Git's objects, so that no filter, hook, attribute or link of a stranger's
repository acts on this machine. Nobody's configuration is read: no credential helper and no `~/.netrc` answers for a task file
that somebody else wrote, so over https only public repositories are read. ssh uses the keys of its agent.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from io import BytesIO
from pathlib import Path
from typing import Final

import pygit2
from pygit2.enums import FileMode, ObjectType

from orchestrator.dotgit import minimal_config
from orchestrator.errors import BadInput
from orchestrator.gitcommand import GitFailed, run_git
from sandboxes.workspace.archive import pack_folder
from sandboxes.workspace.names import is_dot_git, shown, to_text
from sandboxes.workspace.tarwriter import TarWriter

HISTORY_DEPTH: Final = 50
"""Commits of history that come along, so that `git log` tells something."""
BLOB_CAP: Final = 1024**3
"""Bytes of a file; Git's objects are read whole."""

_REF: Final = "refs/fanfold/input"
_KEPT: Final = frozenset([b"HEAD", b"index", b"objects", b"packed-refs", b"refs", b"shallow"])
_URL: Final = re.compile(r"(?:https?|ssh)://(?:[^\s/@-][^\s/@]*@)?[\w.\[\]:][\w.\[\]:-]*(?:/\S*)?")
_SCP: Final = re.compile(r"[A-Za-z0-9_][\w.-]*@[A-Za-z0-9_][\w.-]*:[^\s:-][^\s:]*")
_GOOD_REF: Final = re.compile(r"(?!.*(?:\.\.|//|@\{))[A-Za-z0-9_][\w./+@=-]{0,250}")


def remote_of(url: str) -> str | None:
    """The address as Git takes it; None when it is a path. Other schemes (`ext::`, `file://`) and options: `BadInput`."""
    if _URL.fullmatch(url) or _SCP.fullmatch(url):
        return url
    if url.startswith("-") or ":" in url:
        raise BadInput(
            f"inputs.git.url: '{without_password(url)}' is refused: give an https://, http:// or ssh:// address,"
            " user@host:path, or a path inside the task file's folder"
        )
    return None


def without_password(url: str) -> str:
    """The address without user and password."""
    return re.sub(r"//[^/@]*@", "//", url)


def fetch(remote: str, ref: str, work: Path) -> str:
    """Fetch `ref` (branch, tag or whole commit id) into a new bare repository `work`; returns the commit's id.

    Raises `BadInput` when the address or the ref is not there, and `InfrastructureError` when nothing answers in time.
    """
    if not _GOOD_REF.fullmatch(ref):
        raise BadInput(f"inputs.git.ref: '{ref}' is no branch, tag or commit id")
    pygit2.init_repository(str(work), bare=True)
    try:
        depth = f"--depth={HISTORY_DEPTH}"
        run_git("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", depth, "--", remote, f"+{ref}:{_REF}", cwd=work)
        commit = pygit2.Repository(str(work)).references[_REF].peel(pygit2.Commit)
    except GitFailed as exc:
        raise _explain(exc, remote, ref) from exc
    except (KeyError, pygit2.GitError, ValueError) as exc:
        raise BadInput(f"inputs.git.ref: '{ref}' is not a commit ({exc}): name a branch, a tag or a commit") from exc
    return str(commit.id)


def pack_commit(work: Path, commit: str, out: TarWriter, *, exclude: Collection[str] = ()) -> None:
    """Write the files of a commit, and a `.git` folder with its history, to `out`. Submodules become empty folders.

    Raises `BadInput` for a file that is too large or a name that cannot be, `ArchiveRefused` as `TarWriter`.
    """
    repository = pygit2.Repository(str(work))
    tree = repository[commit].peel(pygit2.Tree)
    _pack_tree(repository, tree, "", out, frozenset(exclude))
    if ".git" in exclude:
        return
    index = pygit2.Index(str(work / "index"))
    index.read_tree(tree)
    index.write()
    repository.set_head(pygit2.Oid(hex=commit))
    config = minimal_config({"core.repositoryformatversion": "0", "core.filemode": "true", "core.bare": "false"}).encode()
    out.folder(".git")
    out.file(".git/config", len(config), BytesIO(config).read)
    pack_folder(work, out, prefix=".git", keep=lambda path, _: path.split(b"/")[1] in _KEPT)


def _pack_tree(repository: pygit2.Repository, tree: pygit2.Tree, prefix: str, out: TarWriter, exclude: frozenset[str]) -> None:
    """Write a tree; as deep as a path may be, which `out` limits."""
    for entry in tree:
        name = to_text(entry.raw_name or b"")
        path = prefix + name
        if name in exclude:
            continue
        if is_dot_git(name) or "/" in name:
            raise BadInput(f"inputs.git: the repository has a file named {shown(path)}, which Git itself would refuse")
        if entry.filemode == FileMode.TREE:
            out.folder(path)
            _pack_tree(repository, repository[entry.id].peel(pygit2.Tree), path + "/", out, exclude)
        elif entry.filemode == FileMode.COMMIT:
            out.folder(path)
        else:
            _pack_blob(repository, entry, path, out)


def _pack_blob(repository: pygit2.Repository, entry: pygit2.Object, path: str, out: TarWriter) -> None:
    kind, size = repository.odb.read_header(entry.id)
    if kind != ObjectType.BLOB or size > BLOB_CAP:
        raise BadInput(f"inputs.git: {shown(path)} has more than {BLOB_CAP // 1024**2} MiB: exclude it")
    content = repository.odb.read(entry.id)[1]
    if entry.filemode == FileMode.LINK:
        out.link(path, to_text(content))
    else:
        out.file(path, size, BytesIO(content).read, executable=entry.filemode == FileMode.BLOB_EXECUTABLE)


def _explain(exc: GitFailed, remote: str, ref: str) -> BadInput:
    where = without_password(remote)
    said = str(exc)
    if "couldn't find remote ref" in said or "not our ref" in said or "no such remote ref" in said:
        hint = " (a commit is named by all 40 digits of its id)" if re.fullmatch(r"[0-9a-f]{4,39}", ref) else ""
        return BadInput(f"inputs.git.ref: '{ref}' is not in {where}: name a branch, a tag or a commit of it{hint}")
    return BadInput(f"inputs.git.url: cannot fetch '{ref}' from {where}: {without_password(said)}")
