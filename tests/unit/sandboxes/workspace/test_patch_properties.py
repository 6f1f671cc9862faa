"""Whatever a workspace was and whatever became of it: the patch, applied by Git to the one, gives the other."""

from __future__ import annotations

import asyncio
import errno
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from sandboxes.workspace.names import is_dot_git, parents, to_text
from sandboxes.workspace.patch import make_patch
from tests.unit.sandboxes.workspace.trees import (
    EXECUTABLE,
    FILE,
    LINK,
    Files,
    base_of,
    fetch_from,
    git,
    manifest_of,
    read_files,
)

ODD_NAMES = [
    *(b"a", b"b", b"a b", b" a", b"a ", b"-p", b"tab\there", b"new\nline"),
    *(b'quote"d', b"back\\slash", "ü".encode(), b"\xff\xfe"),
]
names = st.one_of(
    st.sampled_from(ODD_NAMES),
    st.binary(min_size=1, max_size=12).map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"0")),
).filter(lambda name: name not in (b".", b"..", b".gitignore") and not is_dot_git(to_text(name)))
paths = st.lists(names, min_size=1, max_size=3).map(b"/".join)
LINES = [b"one", b"two", b"three", b"", b"  indented ", b"cr\r", b"-- minus", b"+++ plus", b"@@ -1 +1 @@", b"\xff\xfe"]
lines = st.sampled_from(LINES)
texts = st.builds(lambda parts, end: b"\n".join(parts) + end, st.lists(lines, max_size=60), st.sampled_from([b"", b"\n"]))
contents = st.one_of(texts, texts, st.binary(max_size=3000), st.just(b""))
targets = st.sampled_from([b"a", b"../elsewhere", b"/etc/passwd", b"with space", b"\xff", b"b/c", b"new\nline"])
nodes = st.one_of(
    st.tuples(st.sampled_from([FILE, FILE, EXECUTABLE]), contents),
    st.tuples(st.just(LINK), targets),
)


def possible(files: Files) -> Files:
    """Without the paths that lie below a file, and without those that are a folder."""
    kept: Files = {}
    for path, node in files.items():
        above = {parent.encode("utf-8", "surrogateescape") for parent in parents(to_text(path))}
        if above.isdisjoint(kept) and not any(other.startswith(path + b"/") for other in kept):
            kept[path] = node
    return kept


trees = st.dictionaries(paths, nodes, max_size=12).map(possible)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Files, Files]:
    """A workspace, and what became of it: some files kept, some changed, some gone, some new, in any combination of kinds."""
    before = draw(trees)
    after = dict(draw(trees))
    for path, node in before.items():
        fate = draw(st.sampled_from(["keep", "keep", "gone", "change", "mode"]))
        if fate == "keep":
            after.setdefault(path, node)
        elif fate == "change":
            after[path] = draw(nodes)
        elif fate == "mode" and node[0] != LINK:
            after[path] = (EXECUTABLE if node[0] == FILE else FILE, node[1])
    return before, possible(after)


def circle_becomes_folder(folder: Path, now: Files, then: Files) -> bool:
    """`git apply` stumbles over a link that points in a circle and becomes a folder, with Git's own patches too."""
    return any(
        in_circle(folder / to_text(path)) and any(other.startswith(path + b"/") for other in then)
        for path, (mode, _) in now.items()
        if mode == LINK
    )


def in_circle(link: Path) -> bool:
    try:
        link.stat()
    except OSError as exc:
        return exc.errno == errno.ELOOP
    return False


@given(changes())
@example(({}, {b"ends in a space /empty": (FILE, b"")}))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_git_applies_any_patch_and_gets_exactly_the_new_workspace(change: tuple[Files, Files]) -> None:
    before, after = change
    place = Path(tempfile.mkdtemp(prefix="fanfold-patch-"))
    try:
        base = base_of(before, place)
        assume(not circle_becomes_folder(place / "folder", before, after))

        patch = asyncio.run(make_patch(base, manifest_of(after), fetch_from(after)))

        if not patch:
            assert after == before
            return
        folder = place / "folder"
        git(folder, "apply", "--whitespace=nowarn", "-", stdin=patch)
        assert read_files(folder) == after
        assume(not circle_becomes_folder(folder, after, before))
        git(folder, "apply", "--whitespace=nowarn", "--reverse", "-", stdin=patch)
        assert read_files(folder) == before
    finally:
        shutil.rmtree(place)


@given(trees)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_tree_has_the_id_that_git_gives_it(files: Files) -> None:
    place = Path(tempfile.mkdtemp(prefix="fanfold-tree-"))
    try:
        base = base_of(files, place)
        folder = place / "folder"
        git(folder, "init", "--quiet")
        git(folder, "add", "--all", "--force", ".")

        assert base.id == git(folder, "write-tree").decode().strip()
    finally:
        shutil.rmtree(place)
