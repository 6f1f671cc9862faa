"""Which file is a moved one."""

from __future__ import annotations

from sandboxes.workspace.merge.renames import BYTES_CAP, PAIRS_CAP, find_renames
from sandboxes.workspace.store import blob_id
from sandboxes.workspace.tree import Node
from tests.unit.sandboxes.workspace.merge.worlds import LINES
from tests.unit.sandboxes.workspace.trees import EXECUTABLE, FILE, LINK, Files


def moves(gone: Files, new: Files, wanted: set[str] | None = None) -> dict[str, str]:
    contents: dict[str, bytes] = {}

    def nodes(files: Files) -> dict[str, Node]:
        found = {}
        for path, (mode, content) in files.items():
            blob = blob_id([content], len(content))
            contents[blob] = content
            found[path.decode()] = Node(mode, blob, len(content))
        return found

    sources = nodes(gone)
    return find_renames(sources, nodes(new), wanted if wanted is not None else set(sources), contents.__getitem__)


def test_the_same_content_is_a_move_and_the_same_name_comes_first() -> None:
    assert moves({b"a": (FILE, LINES), b"b": (FILE, LINES)}, {b"x/b": (FILE, LINES)}) == {"b": "x/b"}
    assert moves({b"a": (FILE, LINES)}, {b"x": (EXECUTABLE, LINES)}) == {"a": "x"}


def test_half_of_the_content_is_enough_and_less_is_not() -> None:
    half = LINES[: len(LINES) // 2]
    assert moves({b"a": (FILE, LINES)}, {b"b": (FILE, half)}) == {"a": "b"}
    assert moves({b"a": (FILE, LINES)}, {b"b": (FILE, half[7:])}) == {}


def test_the_likest_pair_comes_first() -> None:
    gone: Files = {b"a": (FILE, LINES), b"b": (FILE, LINES.replace(b"line 1", b"x").replace(b"line 2", b"y"))}
    new: Files = {b"c": (FILE, LINES.replace(b"line 1", b"x"))}
    assert moves(gone, new) == {"a": "c"} or moves(gone, new) == {"b": "c"}
    assert moves(gone, {b"c": (FILE, LINES.replace(b"line 9", b"x"))}) == {"a": "c"}


def test_line_ends_make_no_text_unlike() -> None:
    assert moves({b"a": (FILE, LINES)}, {b"b": (FILE, LINES.replace(b"\n", b"\r\n"))}) == {"a": "b"}


def test_empty_files_links_and_files_of_another_kind_are_not_moved() -> None:
    assert moves({b"a": (FILE, b"")}, {b"b": (FILE, b"")}) == {}
    assert moves({b"a": (FILE, b"target")}, {b"b": (LINK, b"target")}) == {}
    assert moves({b"a": (LINK, b"target one")}, {b"b": (LINK, b"target two")}) == {}
    assert moves({b"a": (LINK, b"target")}, {b"b": (LINK, b"target")}) == {"a": "b"}


def test_only_what_is_wanted_is_told() -> None:
    assert moves({b"a": (FILE, LINES)}, {b"b": (FILE, LINES)}, set()) == {}


def test_contents_of_too_many_pairs_are_not_compared() -> None:
    count = int(PAIRS_CAP**0.5) + 1
    gone: Files = {b"gone%d" % n: (FILE, LINES + b"%d\n" % n) for n in range(count)}
    new: Files = {b"new%d" % n: (FILE, LINES + b"%d!\n" % n) for n in range(count)}
    assert moves(gone, new) == {}


def test_contents_of_too_many_bytes_are_not_compared_unless_the_name_is_the_same() -> None:
    large = b"x" * (BYTES_CAP // 2)
    assert moves({b"a": (FILE, large)}, {b"b": (FILE, large + b"\n")}) == {}
    assert moves({b"a": (FILE, LINES)}, {b"b": (FILE, LINES + b"\n")}) == {"a": "b"}
    assert moves({b"a": (FILE, large)}, {b"x/a": (FILE, large + b"\n")}) == {"a": "x/a"}
