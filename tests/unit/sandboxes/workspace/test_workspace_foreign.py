"""A stranger's archive becomes a workspace's tar, or is refused by the name of what is wrong with it."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxes.errors import ArchiveRefused
from sandboxes.workspace import inflate
from sandboxes.workspace.foreign import normalize
from sandboxes.workspace.tarwriter import TarWriter
from tests.unit.sandboxes.workspace.trees import EXECUTABLE, FILE, LINK, Files, read_files

Member = tuple[str, bytes, bytes]
"""Name, type, and content or link target."""
REG, SYM, HARD, DIR = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


def make_tar(path: Path, *members: Member, mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o755 if name.endswith(".sh") else 0o644
            if kind in (SYM, HARD):
                info.linkname = content.decode("utf-8", "surrogateescape")
            info.size = len(content) if kind == REG else 0
            tar.addfile(info, io.BytesIO(content))
    return path


def make_zip(path: Path, *members: tuple[str, int, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, mode, content in members:
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, mode << 16
            file.writestr(info, content, zipfile.ZIP_DEFLATED)
    return path


def normalized(archive: Path, exclude: tuple[str, ...] = ()) -> Files:
    """What becomes of an archive, by path; folders are not in it."""
    result = archive.with_name("normalized.tar")
    with result.open("w+b") as file:
        out = TarWriter(file)
        normalize(archive, out, exclude=exclude)
        out.close()
    folder = archive.with_name("unpacked")
    with tarfile.open(result) as tar:
        tar.extractall(folder, filter="fully_trusted")
    return read_files(folder)


GOOD: list[Member] = [
    ("./", DIR, b""),
    ("./a/b.txt", REG, b"content"),
    ("a/run.sh", REG, b"#!/bin/sh"),
    ("a//c", REG, b""),
    ("a/link", SYM, b"../a/b.txt"),
    ("again", HARD, b"a/b.txt"),
    ("empty/", DIR, b""),
]
EXPECTED: Files = {
    b"a/b.txt": (FILE, b"content"),
    b"a/run.sh": (EXECUTABLE, b"#!/bin/sh"),
    b"a/c": (FILE, b""),
    b"a/link": (LINK, b"../a/b.txt"),
    b"again": (FILE, b"content"),
}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_is_read_whatever_compressed_it(tmp_path: Path, mode: str) -> None:
    assert normalized(make_tar(tmp_path / "archive", *GOOD, mode=mode)) == EXPECTED
    assert (tmp_path / "unpacked" / "empty").is_dir()


def test_a_zip_is_read_with_its_modes_and_links(tmp_path: Path) -> None:
    archive = make_zip(
        tmp_path / "a.zip",
        ("a/", stat.S_IFDIR | 0o755, b""),
        ("a/run.sh", stat.S_IFREG | 0o755, b"#!/bin/sh"),
        ("a/x", 0, b"text" * 1000),
        ("link", stat.S_IFLNK | 0o777, b"a/x"),
    )
    expected: Files = {b"a/run.sh": (EXECUTABLE, b"#!/bin/sh"), b"a/x": (FILE, b"text" * 1000), b"link": (LINK, b"a/x")}
    assert normalized(archive) == expected


def test_excluded_names_are_left_out(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "a.tar", ("keep", REG, b"1"), ("a/drop/x", REG, b"2"), ("drop", SYM, b"/etc"))
    assert normalized(archive, ("drop",)) == {b"keep": (FILE, b"1")}


def test_names_of_any_bytes_and_length_survive(tmp_path: Path) -> None:
    long = "d/" * 90 + "n" * 200
    archive = make_tar(tmp_path / "a.tar", ("\udcff\n ", REG, b""), (long, REG, b""))
    assert set(normalized(archive)) == {b"\xff\n ", long.encode()}


HOSTILE: dict[str, tuple[list[Member], str]] = {
    "absolute name": ([("/etc/passwd", REG, b"x")], "'/etc/passwd' is absolute"),
    "name that climbs": ([("a/../../x", REG, b"x")], r"has a '\.\.' in it"),
    "folder that climbs": ([("../x", DIR, b"")], r"'\.\./x' has a '\.\.' in it"),
    "link to an absolute place": ([("l", SYM, b"/etc")], "'l' points to '/etc', out of"),
    "link that climbs out": ([("a/l", SYM, b"../../x")], "out of the archive"),
    "link that climbs out by another link": ([("d/l", SYM, b".."), ("m", SYM, b"d/l/../x")], "'m' points to"),
    "link to nothing": ([("l", SYM, b"")], "points to nothing"),
    "hard link out": ([("l", HARD, b"/etc/passwd")], "is absolute"),
    "hard link to what is not there": ([("l", HARD, b"other")], "is no file before it"),
    "hard link to a symbolic link": ([("s", SYM, b"x"), ("l", HARD, b"s")], "is no file before it"),
    "device": ([("null", tarfile.CHRTYPE, b"")], "'null' is a device"),
    "pipe": ([("p", tarfile.FIFOTYPE, b"")], "'p' is a device or another special file"),
    "entry twice": ([("a", REG, b"1"), ("./a", REG, b"2")], "'./a' is there twice"),
    "file in the place of a folder": ([("a/b", REG, b""), ("a", REG, b"")], "'a' is there twice"),
    "link in the place of a folder": ([("a/", DIR, b""), ("a", SYM, b"b")], "'a' is there twice"),
    "entry below a link": ([("a", SYM, b"b"), ("a/x", REG, b"")], "'a/x' lies below 'a', which is a link"),
    "folder below a link": ([("a", SYM, b"b"), ("a/x/", DIR, b"")], "'a/x' lies below 'a', which is a link"),
    "entry below a file": ([("a", REG, b"b"), ("a/x", REG, b"")], "'a/x' lies below 'a', which is a file"),
    "file in the place of the root": ([("./", SYM, b"b")], "in the place of the root"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_tar_is_refused_by_the_name_of_the_culprit(tmp_path: Path, case: str) -> None:
    members, message = HOSTILE[case]
    with pytest.raises(ArchiveRefused, match=message):
        normalized(make_tar(tmp_path / "a.tar", ("first", REG, b"fine"), *members))


@pytest.mark.parametrize(
    ("name", "mode", "content", "message"),
    [
        ("../x", 0, b"", "has a '..' in it"),
        ("/x", 0, b"", "is absolute"),
        ("l", stat.S_IFLNK | 0o777, b"/etc", "out of the archive"),
        ("l", stat.S_IFLNK | 0o777, b"x" * 5000, "points to nothing that can be"),
        ("d", stat.S_IFCHR | 0o666, b"", "is a device"),
    ],
)
def test_a_hostile_zip_is_refused_by_the_name_of_the_culprit(
    tmp_path: Path, name: str, mode: int, content: bytes, message: str
) -> None:
    with pytest.raises(ArchiveRefused, match=message):
        normalized(make_zip(tmp_path / "a.zip", ("first", 0, b"fine"), (name, mode, content)))


def test_a_bomb_is_refused_in_either_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflate, "RATIO_FLOOR", 1024 * 1024)
    zeros = bytes(8 * 1024 * 1024)
    with pytest.raises(ArchiveRefused, match="or a bomb"):
        normalized(make_tar(tmp_path / "a.tar.xz", ("z", REG, zeros), mode="w:xz"))
    with pytest.raises(ArchiveRefused, match="or a bomb"):
        normalized(make_zip(tmp_path / "a.zip", ("z", 0, zeros)))


def test_a_header_that_asks_for_gigabytes_of_memory_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 4 * 1024**3
    with gzip.open(tmp_path / "a.tar.gz", "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(ArchiveRefused, match="no honest archive has"):
        normalized(tmp_path / "a.tar.gz")


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def damage_second_header(data: bytes) -> bytes:
    return data[:1024] + b"X" + data[1025:]


def damage_content(data: bytes) -> bytes:
    return data.replace(b"content of the first", b"CONTENT of the first")


@pytest.mark.parametrize(
    ("form", "harm"),
    [
        *(("w", damage_second_header), ("w:gz", cut), ("w:xz", cut), ("w:bz2", cut)),
        *(("w", lambda _: b""), ("w", lambda _: b"text" * 500)),
    ],
)
def test_a_damaged_tar_is_refused_and_never_half_read(tmp_path: Path, form: str, harm: Callable[[bytes], bytes]) -> None:
    archive = make_tar(tmp_path / "a", ("first", REG, b"content"), ("second", REG, b"more"), mode=form)
    archive.write_bytes(harm(archive.read_bytes()))
    with pytest.raises(ArchiveRefused):
        normalized(archive)


def test_a_damaged_zip_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("first", b"content of the first")
    archive.write_bytes(damage_content(archive.read_bytes()))
    with pytest.raises(ArchiveRefused, match=r"cannot be read.*CRC"):
        normalized(archive)


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", ("x", 0, b"secret"))
    data = bytearray(archive.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(data)
    with pytest.raises(ArchiveRefused, match="'x' is encrypted"):
        normalized(archive)


def test_zstd_is_refused_with_what_to_use_instead(tmp_path: Path) -> None:
    (tmp_path / "a.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    with pytest.raises(ArchiveRefused, match=r"use \.tar\.gz or \.tar\.xz"):
        normalized(tmp_path / "a.tar.zst")
