"""Histories to be merged, made up from a seed: a base, and what two sides did to it, with all that Git knows in them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.unit.sandboxes.workspace.trees import EXECUTABLE, FILE, LINK, Files

SUBMODULE = "160000"
COMMITS = ["1" * 40, "2" * 40, "3" * 40]
FOLDERS = ["", "src/", "src/deep/", "docs/", "other/"]
NAMES = ["a", "b", "c.txt", "d.py", "README", "readme", "data.bin", "src", "docs", "ü"]


@dataclass(frozen=True)
class History:
    """A base and two sides, as workspaces. Of a submodule the content is its commit's id."""

    seed: int
    base: Files
    ours: Files
    theirs: Files


def history(seed: int) -> History:
    """The history of a seed: always the same one."""
    random = Random(seed)
    base = _base(random)
    return History(seed, base, side(random, base), side(random, base))


def side(random: Random, base: Files) -> Files:
    """What one side did to `base`: one to four things."""
    files = dict(base)
    for _ in range(random.choice((1, 1, 2, 2, 3, 4))):
        random.choice(_DEEDS)(random, files)
    return files


def _base(random: Random) -> Files:
    files: Files = {}
    for number in range(random.randint(2, 6)):
        path = _new_path(random, files)
        if path is None:
            continue
        kind = random.random()
        if kind < 0.75:
            content = text(random, f"file {number}", random.choice((1, 5, 12, 20)))
            files[path] = (random.choice((FILE, FILE, EXECUTABLE)), content)
        elif kind < 0.85:
            files[path] = (FILE, bytes(random.randrange(256) for _ in range(40)) + b"\0")
        elif kind < 0.95:
            files[path] = (LINK, random.choice((b"a", b"src/a", b"../x")))
        else:
            files[path] = (SUBMODULE, COMMITS[0].encode())  # type: ignore[assignment]
    return files


def text(random: Random, name: str, lines: int) -> bytes:
    """Lines of which no two are equal, mostly with a newline at the end."""
    content = b"".join(b"%s, line %d of it\n" % (name.encode(), number) for number in range(lines))
    return content if random.random() < 0.9 else content[:-1]


def _fits(files: Files, path: bytes) -> bool:
    return path not in files and not any(other.startswith(path + b"/") or path.startswith(other + b"/") for other in files)


def _new_path(random: Random, files: Files) -> bytes | None:
    path = (random.choice(FOLDERS) + random.choice(NAMES)).encode()
    return path if _fits(files, path) else None


def _pick(random: Random, files: Files, *modes: str) -> bytes | None:
    paths = sorted(path for path, (mode, _) in files.items() if not modes or mode in modes)
    return random.choice(paths) if paths else None


def _edit(random: Random, files: Files) -> None:
    path = _pick(random, files, FILE, EXECUTABLE)
    if path is not None:
        mode, content = files[path]
        files[path] = (mode, edited(random, content))


def edited(random: Random, content: bytes) -> bytes:
    """A text with one to three lines replaced, added or removed; the same few edits are likely to be made twice."""
    lines = content.splitlines(keepends=True)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(lines) + 1)
        new = b"edit %d at %d\n" % (random.randrange(3), at)
        lines[at : at + random.choice((0, 1, 1, 2))] = random.choice(([new], [new], []))
    return b"".join(lines)


def _remove(random: Random, files: Files) -> None:
    path = _pick(random, files)
    if path is not None:
        del files[path]


def _move(random: Random, files: Files) -> None:
    path = _pick(random, files, FILE, FILE, EXECUTABLE, LINK)
    if path is None:
        return
    node = files.pop(path)
    folder, _, name = path.rpartition(b"/")
    moved = {name, folder + b"/" + name.swapcase() if folder else name.swapcase()}
    target = _new_path(random, files) if random.random() < 0.7 else sorted(moved)[0]
    if target is None or not _fits(files, target):
        files[path] = node
        return
    files[target] = node
    if node[0] != LINK and random.random() < 0.5:
        files[target] = (node[0], edited(random, node[1]))


def _add(random: Random, files: Files) -> None:
    path = _new_path(random, files)
    if path is None:
        return
    kind = random.random()
    if kind < 0.8:
        files[path] = (random.choice((FILE, FILE, EXECUTABLE)), random.choice((b"", b"new\n", b"new\nand more\n", b"\0")))
    else:
        files[path] = (LINK, random.choice((b"a", b"b")))


def _flip_mode(random: Random, files: Files) -> None:
    path = _pick(random, files, FILE, EXECUTABLE)
    if path is not None:
        mode, content = files[path]
        files[path] = (EXECUTABLE if mode == FILE else FILE, content)


def _change_type(random: Random, files: Files) -> None:
    path = _pick(random, files)
    if path is not None:
        files[path] = random.choice(((LINK, b"b"), (FILE, b"now a file\n"), (LINK, b"c")))


def _file_to_folder(random: Random, files: Files) -> None:
    path = _pick(random, files)
    if path is not None:
        node = files.pop(path)
        files[path + b"/" + random.choice((b"x", b"y"))] = random.choice((node, (FILE, b"below\n")))


def _folder_to_file(random: Random, files: Files) -> None:
    folders = sorted({path.rpartition(b"/")[0] for path in files if b"/" in path})
    if folders:
        folder = random.choice(folders)
        for path in [path for path in files if path.startswith(folder + b"/")]:
            del files[path]
        files[folder] = (FILE, random.choice((b"was a folder\n", b"once a folder\n")))


def _line_ends(random: Random, files: Files) -> None:
    path = _pick(random, files, FILE, EXECUTABLE)
    if path is not None:
        mode, content = files[path]
        files[path] = (mode, content.replace(b"\n", b"\r\n"))


def _binary(random: Random, files: Files) -> None:
    path = _pick(random, files, FILE)
    if path is not None:
        mode, content = files[path]
        files[path] = (mode, random.choice((b"\0", b"\xff\xfe")) + content)


def _submodule(random: Random, files: Files) -> None:
    path = _pick(random, files, SUBMODULE)
    if path is not None:
        files[path] = (SUBMODULE, random.choice(COMMITS).encode())  # type: ignore[assignment]


_DEEDS = [
    *(_edit, _edit, _edit, _edit, _remove, _move, _move, _move, _add, _add),
    *(_flip_mode, _change_type, _file_to_folder, _folder_to_file, _line_ends, _binary, _submodule),
]
