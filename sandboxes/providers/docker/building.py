"""Images that are built of Dockerfiles by the engine, kept for a while and removed again. Blocking code, run in threads."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, Any, Final

from docker import APIClient
from docker.errors import APIError, DockerException
from requests.exceptions import ConnectionError, ReadTimeout

from sandboxes.errors import ImageBuildFailed, InvalidSpec
from sandboxes.providers.base import GIB
from sandboxes.providers.context import Build
from sandboxes.providers.docker import images, layout
from sandboxes.providers.dockerfile import bases, instructions
from sandboxes.providers.said import LINES, told_lines

BUILD_SECONDS: Final = 900.0
"""How long the engine may take for an image."""
BUILD_MEMORY: Final = 2 * GIB
"""Bytes that a `RUN` may have, where the spec says nothing of memory."""
KEPT_SECONDS: Final = 7 * 86400.0
"""How long an image is kept that nobody asks for any more."""
PIECES_CAP: Final = 1_000_000
"""Pieces of output that a build may print."""
_DOCKERFILE: Final = ".fanfold.dockerfile"
_IGNORE: Final = ".dockerignore"
_AGO: Final = f"{_DOCKERFILE}\n{_IGNORE}\n"


class Builder:
    """Builds images on one engine, one after the other."""

    def __init__(self, pull: images.Pull) -> None:
        self._pull: images.Pull = pull
        self._one = threading.Lock()

    def image(self, api: APIClient, build: Build, memory: int | None) -> str:
        """The name of the image of a Dockerfile, which is built unless it is there. Raises as `_build`."""
        name = f"{layout.BUILT_IMAGES}:{build.digest}"
        with self._one:
            if not _used_again(api, name):
                for base in bases(build.text):
                    self._find(api, base)
                _build(api, build, name, memory or BUILD_MEMORY)
        return name

    def _find(self, api: APIClient, base: str) -> None:
        """Make sure that the engine has what an image stands on. Raises `ImageNotFound`."""
        if "$" not in base:
            images.find(api, base, self._pull)
        elif self._pull == "never":
            raise InvalidSpec(
                f"Dockerfile: this provider does not pull, and {base[:200]!r} is known only while it builds: name it"
            )


def _used_again(api: APIClient, name: str) -> bool:
    """Whether the image is there; then it counts as used now."""
    repository, _, tag = name.partition(":")
    try:
        api.tag(name, repository, tag)
    except DockerException:
        return False
    return True


def _build(api: APIClient, build: Build, name: str, memory: int) -> None:
    """Build an image. Raises `ImageBuildFailed` with the last lines of what the build has printed."""
    end = time.monotonic() + BUILD_SECONDS
    said: deque[str] = deque(maxlen=LINES)
    failed: str | None = None
    with tempfile.TemporaryFile() as packed:
        _pack(build, packed)
        asked = api.build(
            fileobj=packed, custom_context=True, dockerfile=_DOCKERFILE, tag=name, decode=True, timeout=int(BUILD_SECONDS),
            rm=True, forcerm=True, network_mode="none" if build.network == "none" else "default",
            container_limits={"memory": memory, "memswap": memory},
        )  # fmt: skip
        try:
            for number, piece in enumerate(asked):
                said.append(str(piece.get("stream", "")))
                failed = piece.get("error", failed)
                if number > PIECES_CAP or time.monotonic() > end:
                    failed = f"it took longer than {BUILD_SECONDS:g} s, or printed too much"
                    break
        except (ReadTimeout, ConnectionError) as exc:
            failed = f"it said nothing for {BUILD_SECONDS:g} s ({type(exc).__name__})"
    if failed is not None:
        raise ImageBuildFailed(f"the Docker engine cannot build the Dockerfile: {told_lines([failed])}\n{told_lines(said)}")


def _pack(build: Build, out: IO[bytes]) -> None:
    """Write the context as the engine takes it: with the Dockerfile in it, which no `COPY .` copies."""
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for child in sorted(build.folder.iterdir()):
            if child.name not in (_DOCKERFILE, _IGNORE):
                archive.add(child, child.name, filter=_plain)
        for name, text in ((_DOCKERFILE, _marked(build.text)), (_IGNORE, _AGO)):
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    out.seek(0)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _marked(text: str) -> str:
    """The Dockerfile with our label on every stage: so what a build that failed has left can be told from what is others'."""
    lines = text.replace("\r\n", "\n").split("\n")
    for one in reversed(instructions(text)):
        if one.word == "FROM":
            lines.insert(one.end, f"LABEL {layout.BUILT_LABEL}=true")
    return "\n".join(lines)


def sweep(api: APIClient) -> None:
    """Remove the images that nobody has asked for in a while, and what builds have left that failed. What is in use stays."""
    marks = {"label": f"{layout.BUILT_LABEL}=true"}
    found = [*api.images(layout.BUILT_IMAGES, filters=dict(marks)), *api.images(filters={**marks, "dangling": True})]
    for name in _old(api, found):
        with contextlib.suppress(APIError):  # in use, or gone
            api.remove_image(name)


def _old(api: APIClient, found: list[dict[str, Any]]) -> Iterator[str]:
    for one in found:
        tags = [tag for tag in one.get("RepoTags") or () if tag.startswith(f"{layout.BUILT_IMAGES}:")]
        with contextlib.suppress(APIError):
            if time.time() - _last_used(api, one["Id"]) > KEPT_SECONDS:
                yield from tags or [one["Id"]]


def _last_used(api: APIClient, image: str) -> float:
    """When an image was made, or named again: seconds since 1970."""
    told = images.inspect(api, image)
    moments = (told.get("Created"), (told.get("Metadata") or {}).get("LastTagTime"))
    return max(_seconds(str(one)) for one in moments if one)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment[:19]).replace(tzinfo=UTC).timestamp()
