"""A Dockerfile and its context, packed: read once, checked, and from then on the same wherever they are built.

The archive has the Dockerfile as its first entry, and the files of the context below `context/`. It may come from a stranger:
what is unpacked of it stays in the folder that it is given, links included.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Final

from sandboxes.errors import ArchiveRefused, InvalidSpec
from sandboxes.providers.dockerfile import TEXT_CAP, Dockerfile, check
from sandboxes.providers.dockerignore import Rules
from sandboxes.providers.standing import to_its_end
from sandboxes.workspace.archive import Keep, pack_folder
from sandboxes.workspace.names import BadName, shown, split
from sandboxes.workspace.tarwriter import CHUNK, TarWriter

if TYPE_CHECKING:
    from sandboxes.providers.base import SandboxSpec

CONTEXT_CAP: Final = 512 * 1024**2
"""Bytes of all files of a context."""
ENTRIES_CAP: Final = 50_000
"""Files and folders of a context."""
IGNORE_CAP: Final = 64 * 1024
"""Bytes of a `.dockerignore`."""
_TEXT: Final = "Dockerfile"
_INSIDE: Final = "context"


@dataclass(frozen=True)
class Build:
    """What is to be built, in a folder that is nobody else's."""

    folder: Path
    """The files of the context."""
    text: str
    """The Dockerfile."""
    network: str
    """What `RUN` may reach: `none`, `public` or `allowlist`."""
    digest: str
    """SHA-256 of all this, in hexadecimal."""

    @property
    def dockerfile(self) -> Path:
        """The Dockerfile as a file, beside the context."""
        return self.folder.with_name(_TEXT)


@asynccontextmanager
async def prepared(spec: SandboxSpec) -> AsyncIterator[Build]:
    """What the Dockerfile of a spec says, for a while. Raises `InvalidSpec`."""
    assert spec.dockerfile is not None
    with tempfile.TemporaryDirectory(prefix="fanfold-build-") as place:
        network = spec.dockerfile.network or spec.network
        yield await to_its_end(asyncio.to_thread(_prepare, spec.dockerfile, network, Path(place)))


def _prepare(dockerfile: Dockerfile, network: str, place: Path) -> Build:
    archive = Path(dockerfile.archive) if dockerfile.archive is not None else place / "packed.tar"
    if dockerfile.archive is None:
        with archive.open("xb") as file:
            pack(dockerfile, file)
    text = unpack(archive, place / _INSIDE)
    check(text)
    (place / _TEXT).write_text(text)
    return Build(place / _INSIDE, text, network, _digest(archive, network))


def _digest(archive: Path, network: str) -> str:
    digest = hashlib.sha256(network.encode() + b"\0")
    with archive.open("rb") as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


# -- packing


def pack(dockerfile: Dockerfile, out: BinaryIO) -> None:
    """Write a Dockerfile and its context to `out`: same content, same bytes. Raises `InvalidSpec`."""
    assert dockerfile.path is not None
    path = Path(dockerfile.path)
    text = _read(path, TEXT_CAP)
    check(text)
    context = path.parent if dockerfile.context is None else Path(dockerfile.context)
    if not context.is_dir():
        raise InvalidSpec(f"dockerfile: the context {context} is not a folder")
    writer = TarWriter(out)
    data = io.BytesIO(text.encode())
    try:
        writer.file(_TEXT, data.getbuffer().nbytes, data.read)
        writer.folder(_INSIDE)
        pack_folder(context, writer, prefix=_INSIDE, keep=_kept(context, _rules(context, path)))
    except ArchiveRefused as exc:
        raise InvalidSpec(f"dockerfile: the context {context} cannot be taken: {exc}") from exc
    writer.close()


def _kept(context: Path, rules: Rules) -> Keep:
    """What goes in. It counts, so that what is too much is refused before it is read."""
    left = [CONTEXT_CAP, ENTRIES_CAP]

    def keep(path: bytes, entry: os.DirEntry[bytes]) -> bool:
        is_folder = entry.is_dir(follow_symlinks=False)
        if rules.leave_out(os.fsdecode(path).removeprefix(f"{_INSIDE}/"), folder=is_folder):
            return False
        left[0] -= entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
        left[1] -= 1
        if min(left) < 0:
            raise InvalidSpec(
                f"dockerfile: the context {context} is more than {CONTEXT_CAP // 1024**2} MiB or {ENTRIES_CAP} files:"
                " give a smaller folder, or leave parts out with a .dockerignore"
            )
        return True

    return keep


def _read(path: Path, cap: int) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(cap + 1)
        text = data.decode()
    except OSError as exc:
        raise InvalidSpec(f"dockerfile: cannot read {path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise InvalidSpec(f"dockerfile: {path} is not text in UTF-8") from exc
    if len(data) > cap:
        raise InvalidSpec(f"dockerfile: {path} has more than {cap // 1024} KiB")
    return text


def _rules(context: Path, dockerfile: Path) -> Rules:
    """What is left out: `NAME.dockerignore` beside the Dockerfile counts before the context's own."""
    for place in (dockerfile.with_name(f"{dockerfile.name}.dockerignore"), context / ".dockerignore"):
        if place.is_file():
            return Rules(_read(place, IGNORE_CAP))
    return Rules("")


# -- unpacking


def unpack(archive: Path, folder: Path) -> str:
    """Make `folder`, with the context of an archive in it; the Dockerfile. Raises `InvalidSpec`; `folder` may be left then."""
    folder.mkdir()
    text, links, left = None, [], CONTEXT_CAP
    try:
        with tarfile.open(archive, "r:", encoding="utf-8", errors="surrogateescape") as packed:
            for number, entry in enumerate(packed):
                left -= entry.size
                if number > ENTRIES_CAP or left < 0:
                    raise InvalidSpec("dockerfile: the archive of the context is too large")
                if entry.name == _TEXT and entry.isreg() and entry.size <= TEXT_CAP:
                    text = _content(packed, entry).read().decode()
                elif entry.issym():
                    links.append((_place(entry.name, folder), entry.linkname))
                else:
                    _unpack_entry(packed, entry, folder)
        _make_links(links, folder)
    except (tarfile.TarError, BadName, UnicodeDecodeError, OSError) as exc:
        raise InvalidSpec(f"dockerfile: the archive of the context cannot be unpacked: {exc}") from exc
    if text is None:
        raise InvalidSpec("dockerfile: the archive has no Dockerfile")
    return text


def _unpack_entry(packed: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    if entry.isdir():
        if entry.name.rstrip("/") != _INSIDE:
            _place(entry.name, folder).mkdir()
    elif entry.isreg():
        with _place(entry.name, folder).open("xb") as file:
            shutil.copyfileobj(_content(packed, entry), file, CHUNK)
            os.fchmod(file.fileno(), 0o755 if entry.mode & 0o100 else 0o644)
    else:
        raise InvalidSpec(f"dockerfile: {shown(entry.name)} is neither a file nor a folder nor a link")


def _place(name: str, folder: Path) -> Path:
    first, *parts = split(name.rstrip("/"))
    if first != _INSIDE or not parts:
        raise BadName(f"is {shown(name)}, which is no part of a context")
    return folder.joinpath(*parts)


def _content(packed: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    found = packed.extractfile(entry)
    assert found is not None
    return found


def _make_links(links: list[tuple[Path, str]], folder: Path) -> None:
    """Made when all else is there, so that nothing is written through one; then each has to lead to a place in the folder."""
    for place, target in links:
        place.symlink_to(target)
    top = folder.resolve()
    for place, target in links:
        if not place.resolve().is_relative_to(top):
            name = shown(str(place.relative_to(folder)))
            raise InvalidSpec(f"dockerfile: {name} of the context is a link to {shown(target)}, which is outside of it")
