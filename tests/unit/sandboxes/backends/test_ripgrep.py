"""With ripgrep and without, a search has the same answers."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.backends import FilesystemBackend
from sandboxes.backends.disk import ripgrep
from tests.conftest import missing

SHELL = shutil.which("sh") or "/bin/sh"


@pytest.fixture(scope="session")
def program():
    """The real ripgrep."""
    found = shutil.which("rg")
    if found is None:
        missing("ripgrep is not installed.")
    return found


@pytest.fixture
def tree(tmp_path):
    made = tmp_path / "tree"
    made.mkdir()
    return made


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts a script in ripgrep's place."""

    def put(script):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "rg").write_text(f"#!{SHELL}\n{script}\n")
        (folder / "rg").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    return put


def both(tree, *args, largest=10.0, **kwargs):
    """The answers with and without ripgrep, which must be one and the same."""
    backend = FilesystemBackend(tree, virtual_mode=True, max_file_size_mb=largest)
    there = os.environ["PATH"]
    with_it = backend.grep(*args, **kwargs)
    try:
        os.environ["PATH"] = "/nowhere"
        without = backend.grep(*args, **kwargs)
    finally:
        os.environ["PATH"] = there
    assert with_it == without
    return with_it


def write(tree, files):
    for name, content in files.items():
        path = Path(os.fsdecode(os.fsencode(tree) + b"/" + name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


TREE = {
    b"a.py": b"needle\n",
    b"a/z.py": b"x\nneedle one\n\nneedle two needle\r\n",
    b"a.txt": b"no\n",
    b".hidden": b"needle\n",
    b".git/config": b"needle\n",
    b".gitignore": b"*\n",
    b".ignore": b"*\n",
    b"ignored/file.py": b"needle\n",
    b"binary": b"\0needle\n",
    b"late-nul": b"x" * 9000 + b"\0\nneedle\n",
    b"latin": b"caf\xe9 needle\n",
    b"late-latin": b"needle\n" + b"x" * 9000 + b"\xe9 needle\n",
    b"wide": "needle".encode("utf-16"),
    b"mark": "\ufeffneedle\n".encode(),
    b"drawing.svg": b"needle\n",
    b"long": b"needle" + b"x" * 5000 + b"\n",
    b"-e": b"needle -e\n",
    b"new\nline": b"needle\n",
    b"not-utf-8-\xff": b"needle\n",
    b"sp ace/[x]{y}": b"needle\n",
    b"empty": b"",
}


def test_every_kind_of_file_is_treated_alike(tree, program):
    write(tree, TREE)
    (tree / "link").symlink_to("a/z.py")
    (tree / "folder-link").symlink_to("a")
    (tree / "loop").symlink_to(".")
    (tree / "dangling").symlink_to("nowhere")
    (tree.parent / "outside").write_text("needle\n")
    (tree / "out").symlink_to("../outside")
    os.mkfifo(tree / "pipe")
    found = {match["path"] for match in both(tree, "needle").matches}
    assert found == {
        "/a.py", "/a/z.py", "/.hidden", "/.git/config", "/ignored/file.py", "/late-nul", "/late-latin", "/mark", "/long", "/-e",
        "/new\nline", "/not-utf-8-\udcff", "/sp ace/[x]{y}",
    }  # fmt: skip


PATTERNS = (
    "needle", "-e", "--help", "needle\n\nneedle", "one\n", "\n", "a\0b", "\0", "caf\udce9", "x\udcff", "ne\tedle", "\r",
    "[a-z]+", "(", "\\", "größe", "日本語", "\ufeff", "$(id)", "n" * 3000, "Needle", "\u2028",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_is_taken_literally(tree, program, pattern):
    write(tree, TREE)
    write(tree, {b"odd": f"<{pattern}>\n".encode("utf-8", "surrogateescape"), b"two": "aab [a-z]+ ( \\ größe \r\n".encode()})
    assert both(tree, pattern).error is None


GLOBS = ("*.py", "a*", ".*", "**", "a/**", "*.{py,txt}", "[a]*", "/a.py", "*", "?.py", "a.p*y", "-*", "!a", "x**")


@pytest.mark.parametrize("glob", GLOBS)
def test_every_glob_means_the_same(tree, program, glob):
    write(tree, TREE)
    write(tree, {b"x.py/inner.txt": b"needle\n", b".x.py": b"needle\n", b"deep/a/b/c/a.py": b"needle\n"})
    assert both(tree, "needle", "/", glob).error is None
    assert both(tree, "needle", "/a", glob).error is None


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 100])
def test_a_cap_ends_both_at_the_same_match(tree, program, count):
    write(tree, {f"{number}".encode(): b"needle\nneedle\n" for number in range(2)})
    result = both(tree, "needle", max_count=count)
    assert (len(result.matches), result.truncated) == (min(count, 4), count < 4)


def test_a_cap_beyond_the_first_files_ends_both_at_the_same_match(tree, program):
    write(tree, {f"{number:04}".encode(): b"needle\n" for number in range(300)})
    result = both(tree, "needle", max_count=250)
    assert ([match["path"] for match in result.matches[-1:]], result.truncated) == (["/0249"], True)


def test_files_that_are_too_large_are_left_out_by_both(tree, program):
    write(tree, {b"large": b"needle\n" * 200_000, b"small": b"needle\n"})
    assert [match["path"] for match in both(tree, "needle", largest=1).matches] == ["/small"]


names = st.sampled_from([b"a", b"b.py", b".c", b"d e", b"\xff", b"x.png", b"sub"])
lines = st.sampled_from([b"needle", b"ne", b"edle", b"", b"\0", b"\xe9", b"needle\r", b"x needle needle", "nädle".encode()])
contents = st.lists(lines, max_size=5).map(b"\n".join)
files = st.dictionaries(st.lists(names, min_size=1, max_size=3).map(tuple), contents, max_size=8)


patterns = st.sampled_from(["needle", "e", "needle\n", "\n", "ä", "\r"])
globs = st.sampled_from([None, "*", "*.py", "sub/*"])


@settings(max_examples=40, deadline=None)
@given(files, patterns, globs, st.integers(0, 6))
def test_random_trees_have_the_same_answers(program, kept, pattern, glob, count):
    possible = {parts: data for parts, data in kept.items() if not any(parts[:n] in kept for n in range(1, len(parts)))}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), {b"/".join(parts): data for parts, data in possible.items()})
        both(Path(folder), pattern, "/", glob)
        both(Path(folder), pattern, "/", glob, max_count=count)


def test_ripgrep_names_the_files_that_may_match(tree, program):
    write(tree, TREE)
    folder = os.open(tree, os.O_RDONLY)
    try:
        named = ripgrep.named(folder, "needle", None, 1000)
    finally:
        os.close(folder)
    assert named is not None, "it ran"
    assert named.complete
    assert {"a.py", ".git/config", "ignored/file.py", "new\nline", "not-utf-8-\udcff"} <= named.files
    assert {"a.txt", "empty"}.isdisjoint(named.files)


def test_ripgrep_is_asked_and_not_believed(tree, fake):
    write(tree, {b"named": b"nothing\n", b"not-named": b"needle\n", b"right": b"needle\n"})
    fake("printf './named\\0./right\\0./missing\\0./../outside\\0'")
    result = FilesystemBackend(tree, virtual_mode=True).grep("needle")
    assert [match["path"] for match in result.matches] == ["/right"]


@pytest.mark.parametrize("script", ["exit 2", "kill -9 $$", "printf './wrong'; exit 3"])
def test_when_ripgrep_fails_the_search_is_done_without(tree, fake, script):
    write(tree, {b"a": b"needle\n"})
    fake(script)
    assert len(FilesystemBackend(tree, virtual_mode=True).grep("needle").matches) == 1


def test_a_ripgrep_that_cannot_be_started_is_done_without(tree, fake, tmp_path):
    write(tree, {b"a": b"needle\n"})
    fake("")
    (tmp_path / "bin" / "rg").write_bytes(b"\x7fELF no program")
    assert len(FilesystemBackend(tree, virtual_mode=True).grep("needle").matches) == 1


def test_a_slow_search_begins_again_without_the_large_files(tree, fake, monkeypatch):
    monkeypatch.setattr(ripgrep, "PATIENCE", 0.05)
    write(tree, {b"a": b"needle\n", b"b": b"needle\n"})
    fake("case \"$*\" in *--max-filesize=*) printf './a\\0./b\\0';; *) printf './a\\0'; exec sleep 60;; esac")
    result = FilesystemBackend(tree, virtual_mode=True).grep("needle")
    assert (len(result.matches), result.truncated) == (2, False)


def test_a_search_that_never_ends_gives_what_it_found_and_says_that_it_is_not_all(tree, fake, monkeypatch):
    monkeypatch.setattr(ripgrep, "PATIENCE", 0.05)
    monkeypatch.setattr(ripgrep, "SECONDS", 2.0)
    write(tree, {b"a": b"needle\n", b"b": b"needle\n"})
    fake("printf './a\\0'; exec sleep 60")
    result = FilesystemBackend(tree, virtual_mode=True).grep("needle")
    assert ([match["path"] for match in result.matches], result.truncated) == (["/a"], True)


def test_a_program_of_the_folder_that_is_searched_is_not_run(tree, fake, monkeypatch):
    write(tree, {b"a": b"needle\n", b"rg": f"#!{SHELL}\n: > ran\n".encode()})
    (tree / "rg").chmod(0o755)
    monkeypatch.chdir(tree)
    monkeypatch.setenv("PATH", "." + os.pathsep + "bin")
    assert len(FilesystemBackend(tree, virtual_mode=True).grep("needle").matches) == 1
    assert not (tree / "ran").exists()


def test_ripgrep_is_told_nothing_by_its_configuration(tree, program, tmp_path, monkeypatch):
    (tmp_path / "config").write_text("--invert-match\n--type=cpp\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "config"))
    write(tree, {b"a.py": b"needle\n"})
    assert len(both(tree, "needle").matches) == 1
