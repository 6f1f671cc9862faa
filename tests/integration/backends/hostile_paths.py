"""Paths that try to lead out, and the place that they try it in: a root full of traps, and beside it a decoy with a secret.

Whoever changes something gets `changing` paths alone. Those can reach the decoy and nothing else, whatever is wrong with the
backend: the tests may run as root. `reading` has more, which name files of this machine.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SECRET = "the-content-of-the-decoy"
HIDDEN = "a-name-that-no-attack-knows"
"""The name of a file of the decoy: whoever shows it has listed the decoy."""

CLIMBS = [
    "../", "..//", "./../", ".././", "....//", ".../", "..;/", ". ./", " ../", "../ ", ".. /", "..\t/", "..\n/", "..\r/",
    "..\0/", "%2e%2e/", "%2E%2E%2F", "..%2f", "..%5c", "%252e%252e%252f", "%%32%65%%32%65/", "%u002e%u002e/", "..%00/",
    "..%c0%af", "%c0%ae%c0%ae/", "%e0%80%ae%e0%80%ae/", "..\udcc0\udcaf", "\udcc0\udcae\udcc0\udcae/", "..\\", "..\\/",
    "..\\\\", "..\u2215", "..\u2044", "..\uff0f", "..\uff3c", "\uff0e\uff0e/", "\u2025/", "\u2024\u2024/", ".\u200b./",
    ".\u00ad./", "\u202e../", "..\u00a0/", "\\u002e\\u002e/", "&#46;&#46;/", "$PWD/../", "{.,.}./",
]  # fmt: skip
"""One level up, by those who decode, normalize, trim or expand what they should take literally."""

STARTS = [("", 1), ("/", 1), ("/./", 1), ("//", 1), ("sub/", 2), ("/sub/deep/", 3)]
"""Beginnings of a path, and how many levels up the root's parent is from there."""

LINKS = {
    "absolute": "{outside}",
    "relative": "../outside",
    "roundabout": "sub/../../outside",
    "dots": "./././../outside/./sub/..",
    "slashes": "..//..///arena//outside",
    "first": "second",
    "second": "sub/third",
    "sub/third": "../../outside",
    "sub/deep/up": "../../..",
    "parent": "..",
    "sibling": "../root-sibling",
    "through": "{root}/../outside",
    "loop": "pool",
    "pool": "loop",
    "itself": "itself",
    "inward": "inward/x",
    "dangling": "{outside}/new",
    "dangling-folder": "{outside}/made/here",
    "file": "{outside}/secret",
    "file-relative": "../outside/secret",
    "file-chain": "file",
    "sub/file": "../file-relative",
    "by-proc": "/proc/self/root{outside}",
    "%2e%2e": "../outside",
    "inside": "sub",
}
"""Symbolic links in the root. Each leads to the decoy, nowhere, or (the last one) to a place inside."""

BEYOND = ["", "/", "/.", "/secret", "//secret", "/secret/", "/new", "/new/file", "/sub/deep", "/../outside/secret"]
"""What stands behind a link."""

ABSOLUTE = [
    "{outside}/secret", "/{outside}/secret", "//{outside}/secret", "/.{outside}/secret", "file://{outside}/secret",
    "file:{outside}/secret", "{outside}/secret/", "{outside}/secret/.", "{outside}/secret\n", "{outside}/secret ",
    " {outside}/secret", "\n{outside}/secret", "{outside}/secret\0", "{outside}/secret\0.txt", "{outside}/secret#",
    "{outside}/secret?", "{outside}/secret;", "{outside}/secret%00", "{outside}/secret::$DATA", "{outside}", "{outside}/",
    "{outside}/.", "{outside}/new", "{outside}/sub", "\\\\?\\{outside}\\secret", "C:{outside}/secret", "\\{outside}\\secret",
    "{root}-sibling/secret", "{root}/../outside/secret", "/proc/self/root{outside}/secret",
    "/proc/thread-self/root{outside}/secret", "/dev/fd/../..{outside}/secret", "~{outside}/secret", "~/secret",
    "~/../outside/secret", "~", "$HOME/secret", "${{HOME}}/secret", "`echo {outside}`/secret", "$(echo {outside})/secret",
    "../root-sibling/secret", "/../root-sibling/secret", "-sibling/secret", "../root/../outside/secret", "..{outside}/secret",
    "../..{outside}/secret", "/../../../../../../../../../..{outside}/secret", "..", "/..", "./..", "sub/../..", "/sub/../..",
    "/..//", "../.", "../..", "/../..", "sub/../../..",
]  # fmt: skip

NAMES = [
    "", " ", "\0", "/\0", "a\0b", "/a\0", "\n", "\r\n", "\t", "\x7f", "\x1b[2J", "\u202e", "\ufeff", "\u2028", "\ud800",
    "\udfff", "\udcff", "/\udcff\udcfe", "\U0010ffff", "e\u0301", "\u00e9", "K", "...", "....", "-rf", "--", "-", "*", "?",
    "[", "[a-z]", "{a,b}", "**", "!", "#", "$HOME", "`id`", "$(id)", "|id", ";id", "&", "'", '"', "\\", "\\\\", "nul", "con",
    "a:b", "a" * 255, "a" * 256, "\u00e9" * 128, "a" * 4097, "/" + "a/" * 2040 + "b", "/" + "a/" * 3000,
    "/" + "a" * 255 + "/" + "b" * 256, "/" * 5000 + "a", "./" * 3000 + "a", "sub/" + "./" * 4000, "a" * 100_000, ".", "/",
    "//", "/.", "/./.", "./", "sub/.", "sub//", "file/..", "loop/..", "absolute/..", "absolute/../sub", "pipe", "pipe/",
    "pipe/x", "socket", "socket/x", "device", "device/x",
]  # fmt: skip

HOST = [
    "/etc/passwd", "/etc/passwd/", "//etc/passwd", "etc/passwd", "../" * 12 + "etc/passwd", "/" + "../" * 30 + "etc/passwd",
    "/proc/self/environ", "/proc/self/root/etc/passwd", "/proc/self/cwd", "/proc/self/fd/0", "/proc/1/root/etc/passwd",
    "/proc", "/dev/zero", "/dev/stdin", "/dev/tty", "/dev/fd/0", "/sys/kernel", "to-root", "to-root/etc/passwd",
    "to-proc/environ", "to-proc/root/etc/passwd", "to-proc/cwd", "to-proc/fd/0", "to-zero", "to-stdin", "to-dev/zero",
    "~root", "~root/.bashrc", "/../" * 12, "../" * 12, "file:///etc/passwd", "/etc/passwd\0", "/ETC/PASSWD",
    "%2fetc%2fpasswd",
]  # fmt: skip
HOST_LINKS = {
    "to-root": "/", "to-proc": "/proc/self", "to-zero": "/dev/zero", "to-stdin": "/dev/stdin", "to-dev": "/dev",
}  # fmt: skip


@dataclass(frozen=True)
class Arena:
    """A folder with the root of a backend in it, and the decoy beside it."""

    folder: Path

    @property
    def root(self) -> Path:
        """Where the backend has to stay."""
        return self.folder / "root"

    @property
    def outside(self) -> Path:
        """The decoy."""
        return self.folder / "outside"

    @property
    def sibling(self) -> Path:
        """Another one, whose path begins with that of the root."""
        return self.folder / "root-sibling"

    @classmethod
    def made_in(cls, folder: Path) -> Arena:
        """A new one, deep enough that a few levels up are still in `folder`."""
        arena = cls(folder / "over" / "the" / "arena")
        for decoy in (arena.outside, arena.sibling):
            (decoy / "sub" / "deep").mkdir(parents=True)
            for name in ("secret", HIDDEN, "sub/secret", "sub/deep/secret"):
                (decoy / name).write_text(SECRET)
        arena.restore()
        return arena

    def restore(self) -> None:
        """Put the traps in their places again, those that an attack has deleted or replaced."""
        for folder in ("sub", "sub/deep"):
            _cleared(self.root / folder, stat.S_ISDIR)
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        for name, target in LINKS.items():
            self._link(name, target.format(outside=self.outside, root=self.root))
        _cleared(self.root / "pipe", stat.S_ISFIFO)
        _cleared(self.root / "socket", stat.S_ISSOCK)
        if not os.path.lexists(self.root / "pipe"):
            os.mkfifo(self.root / "pipe")
        if not os.path.lexists(self.root / "socket"):
            _listen(self.root / "socket")
        if not os.path.lexists(self.root / "device"):
            with suppress(PermissionError):
                os.mknod(self.root / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))

    def lead_to_this_machine(self) -> None:
        """Add the links to folders of this machine: for those who only read."""
        for name, target in HOST_LINKS.items():
            self._link(name, target)

    def _link(self, name: str, target: str) -> None:
        link = self.root / name
        _cleared(link, stat.S_ISLNK)
        if not os.path.lexists(link):
            link.symlink_to(target)

    def fingerprint(self) -> str:
        """What is outside of the root: every name, kind, mode, time, target and content."""
        return "\n".join(line for folder in (self.folder.parent.parent, self.folder) for line in _described(folder, self.root))

    def changing(self) -> list[str]:
        """Every attack that can reach the decoy alone."""
        return [path.format(outside=self.outside, root=self.root) if "{outside}" in path or "{root}" in path else path
                for path in PATTERNS]  # fmt: skip

    def reading(self) -> list[str]:
        """Every attack."""
        return [*self.changing(), *HOST]


def _cleared(path: Path, is_right: object) -> None:
    """Remove what an attack has put in the place of a trap."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if not is_right(mode):  # type: ignore[operator]
        path.unlink()


def _listen(path: Path) -> None:
    # A socket's path has to be short, that of a test's folder is not.
    here = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def _described(folder: Path, without: Path) -> Iterator[str]:
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if Path(entry.path) == without:
            continue
        known = entry.stat(follow_symlinks=False)
        told = f"{entry.path} {known.st_mode:o} {known.st_mtime_ns}"
        if entry.is_symlink():
            yield f"{told} -> {Path(entry.path).readlink()}"
        elif entry.is_file():
            yield f"{told} {hashlib.sha256(Path(entry.path).read_bytes()).hexdigest()}"
        elif folder not in without.parents or Path(entry.path) not in without.parents:
            yield told
            yield from _described(Path(entry.path), without)


PATTERNS = list(dict.fromkeys([
    *(start + climb * levels + "outside/secret" for climb in CLIMBS for start, levels in STARTS),
    *(slash + link + beyond for link in LINKS for beyond in BEYOND for slash in ("/",)),
    *LINKS,
    *ABSOLUTE,
    *NAMES,
]))  # fmt: skip
