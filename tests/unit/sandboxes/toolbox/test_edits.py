"""Edits are made as a whole, whatever ends the process that makes them and at whatever step."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sandboxes.toolbox.helper import edits, search

STEPS_CAP = 300
"""More steps than these edits take."""
HALFWAY = 20
"""So many steps, and they are at work."""
KILLED = 9

MAKE = """
import json, os, sys
from sandboxes.toolbox.helper import edits
left = int(sys.argv[1])
def step(event, arguments):
    global left
    if event in ("os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.chmod", "shutil.rmtree"):
        left -= 1
        if left < 0:
            os._exit(9)
told = json.load(sys.stdin)
contents = edits.Contents(os.open(told["contents"], os.O_RDONLY), told["blobs"])
sys.addaudithook(step)
print(edits.apply(told["root"], told["edits"], contents, told["upper"]))
"""
"""Makes edits in a process of its own, which ends after so many steps as by SIGKILL."""


def blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def file(content: str, mode: str = "100644") -> str:
    return f"{mode} {blob(content.encode())}"


BEFORE = {"a": "a", "d/x": "x", "d/in/y": "y", "e/z": "z", "kept/k": "k", "mode": "m"}
EDITS = [
    ("a", file("a"), None),
    ("a/new", None, file("new")),
    ("d", None, file("new")),
    ("d/in/y", file("y"), None),
    ("d/x", file("x"), None),
    ("e/z", file("z"), None),
    ("empty", None, f"040000 {search.EMPTY_FOLDER}"),
    ("kept/k", file("k"), file("new", "120000")),
    ("mode", file("m"), file("new", "100755")),
    ("o/p/q", None, file("new")),
]
AFTER = ["a/", "a/new 644 new", "d 644 new", "empty/", "kept/", "kept/k -> new", "mode 700 new", "o/", "o/p/", "o/p/q 644 new"]


def picture(root: Path) -> list[str]:
    found = []
    for path in sorted(root.rglob("*")):
        name, permissions = str(path.relative_to(root)), path.lstat().st_mode & 0o777
        if name.startswith(search.STAGING):
            continue
        if path.is_symlink():
            found.append(f"{name} -> {path.readlink()}")
        elif path.is_dir():
            found.append(f"{name}/" if permissions == 0o755 else f"{name}/ {permissions:o}")
        else:
            found.append(f"{name} {permissions:o} {path.read_text()}")
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "root"
    for path, content in BEFORE.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(content)
    (place / "d" / "in").chmod(0o700)
    (place / "mode").chmod(0o600)
    (tmp_path / "contents").write_text("new")
    return place


def made_in_another_process(root: Path, steps: int, upper: Path | None) -> int:
    told = {
        "root": str(root), "edits": EDITS, "blobs": [[blob(b"new"), 3]], "contents": str(root.parent / "contents"),
        "upper": None if upper is None else str(upper),
    }  # fmt: skip
    command = [sys.executable, "-c", MAKE, str(steps)]
    return subprocess.run(command, input=json.dumps(told), text=True, capture_output=True, check=False).returncode


def put_right(root: Path) -> None:
    """What the next edits do first."""
    with tempfile.TemporaryFile() as nothing:
        assert edits.apply(str(root), [], edits.Contents(nothing.fileno(), [])) == {"refused": []}


@pytest.mark.parametrize("copies", [False, True], ids=["moved-aside", "copied-aside"])
def test_killed_at_any_step_edits_are_made_or_not_begun(root: Path, tmp_path: Path, copies: bool) -> None:
    before = picture(root)
    upper = tmp_path / "upper" if copies else None
    for steps in range(STEPS_CAP):
        ended = made_in_another_process(root, steps, upper)
        killed_in = picture(root)
        put_right(root)
        assert not [*root.glob(f"{search.STAGING}*")]
        if picture(root) != before:
            break
        assert ended == KILLED, killed_in
    assert steps > len(EDITS)
    assert picture(root) == AFTER


def test_putting_things_back_may_be_killed_too(root: Path) -> None:
    before = picture(root)
    assert made_in_another_process(root, HALFWAY, None) == KILLED
    assert picture(root) != before
    for steps in range(HALFWAY // 2):
        assert made_in_another_process(root, steps, None) == KILLED
    put_right(root)
    assert picture(root) == before


def test_what_was_there_is_kept_until_all_is_done(root: Path) -> None:
    (root / "o").mkdir()
    (root / "o" / "p").write_text("theirs")
    before = picture(root)
    with (root.parent / "contents").open("rb") as contents:
        answer = edits.apply(str(root), EDITS, edits.Contents(contents.fileno(), [[blob(b"new"), 3]]))
    assert answer == {"refused": ["o/p/q"]}
    assert picture(root) == before
