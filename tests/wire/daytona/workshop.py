"""Images that are built of Dockerfiles: in a sandbox whose layers every sandbox of the image begins with copies of.

Less than Daytona: a few instructions (`SPOKEN`), one stage; what root writes meanwhile belongs to the sandbox's user.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import posixpath
import re
import shlex
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests.wire.daytona.jail import Jail, Kind, Yard
from tests.wire.daytona.running import reader_of, started

SPOKEN: Final = ("FROM", "ENV", "WORKDIR", "COPY", "RUN")
RUN_SECONDS: Final = 120.0
_ENV: Final = re.compile(r"(\w+)=(\"[^\"]*\"|\S*)")


class BuildError(Exception):
    """A build that has failed. `said` is what it has printed."""


class Unspoken(Exception):
    """A Dockerfile that this server does not build."""


@dataclass
class Recipe:
    """A Dockerfile, taken apart."""

    base: str
    steps: list[tuple[str, str]]

    @classmethod
    def of(cls, text: str) -> Recipe:
        """Raises `Unspoken`."""
        lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
        steps = [[*one.split(maxsplit=1), ""][:2] for one in "\n".join(lines).replace("\\\n", " ").split("\n")]
        words = [word.upper() for word, _ in steps]
        if unspoken := sorted(set(words) - set(SPOKEN)):
            raise Unspoken(f"this server builds no Dockerfile with {', '.join(unspoken)[:200]}")
        if words.count("FROM") != 1 or words[0] != "FROM" or " " in steps[0][1].strip():
            raise Unspoken("this server builds one stage: `FROM IMAGE`, and then what is done with it")
        if any(word == "COPY" and (rest.startswith("--") or "[" in rest) for word, (_, rest) in zip(words, steps, strict=True)):
            raise Unspoken("this server has no options of COPY, and none of its lists")
        return cls(steps[0][1].strip(), [(word, rest) for word, (_, rest) in zip(words, steps, strict=True)][1:])


@dataclass
class Image:
    """What was built, or is about to be."""

    jail: Jail
    log: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    done: bool = False

    @property
    def layers(self) -> Path:
        """Where its files are."""
        return self.jail.folder


class Workshop:
    """Builds images, each once. `stored` are the archives of contexts, by the keys that the storage has them under."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._images: dict[str, Image] = {}
        self._building = asyncio.Lock()
        self.stored: dict[str, bytes] = {}

    def image(self, recipe: Recipe, contexts: Sequence[str], kind: Kind) -> Image:
        """The image of a Dockerfile, which may not be built."""
        told = json.dumps([recipe.base, recipe.steps, sorted(contexts), kind.python])
        key = hashlib.sha256(told.encode()).hexdigest()[:16]
        return self._images.setdefault(key, Image(self._yard / f"built-{key}"))

    async def built(self, recipe: Recipe, contexts: Sequence[str], kind: Kind) -> Image:
        """The same, built. Raises `BuildError`; the log tells what was printed until then."""
        made = self.image(recipe, contexts, kind)
        async with self._building:
            if not made.done:
                await self._build(made, recipe, contexts, replace(kind, root=True, network=True))
        return made

    async def _build(self, image: Image, recipe: Recipe, contexts: Sequence[str], kind: Kind) -> None:
        await asyncio.to_thread(image.jail.remove)
        image.log, image.env, image.workdir = [], {}, "/"
        await asyncio.to_thread(image.jail.make)
        await asyncio.to_thread(image.jail.start, kind)
        try:
            with tempfile.TemporaryDirectory() as place:
                self._unpack(contexts, place)
                for word, rest in recipe.steps:
                    image.log.append(f"{word} {rest}")
                    await _STEPS[word](image, rest, place)
        except OSError as exc:
            raise BuildError(str(exc)) from exc
        finally:
            await asyncio.to_thread(image.jail.stop)
        image.done = True

    def _unpack(self, contexts: Sequence[str], place: str) -> None:
        for digest in contexts:
            found = next((data for key, data in self.stored.items() if key.endswith(f"/{digest}/context.tar")), None)
            if found is None:
                raise BuildError(f"context {digest} not found")
            packed = Path(place, "packed.tar")
            packed.write_bytes(found)
            with tarfile.open(packed) as archive:
                archive.extractall(place, filter="data")
            packed.unlink()


async def _env(image: Image, rest: str, _place: str) -> None:
    image.env |= {name: value.strip('"') for name, value in _ENV.findall(rest)}


async def _workdir(image: Image, rest: str, _place: str) -> None:
    image.workdir = posixpath.normpath(posixpath.join(image.workdir, rest.strip()))
    await _told(image, "folder", path=image.workdir, mode="755")


async def _copy(image: Image, rest: str, place: str) -> None:
    *sources, target = shlex.split(rest)
    found = [one for source in sources for one in _found(Path(place), source.lstrip("/"))]
    if not found:
        raise BuildError(f"COPY failed: file not found in build context: {' '.join(sources)}")
    to = posixpath.join(image.workdir, target)
    inside = target.endswith(("/", ".")) or len(found) > 1
    for one in found:
        for path in (path for path in one.rglob("*") if path.is_file()):
            await _write(image, path, posixpath.join(to, str(path.relative_to(one))))
        if one.is_file():
            await _write(image, one, posixpath.join(to, one.name) if inside else to)


def _found(place: Path, source: str) -> list[Path]:
    return [place] if posixpath.normpath(source) == "." else sorted(place.glob(posixpath.normpath(source)))


async def _write(image: Image, source: Path, target: str) -> None:
    target = posixpath.normpath(target)
    descriptor = await asyncio.to_thread(image.jail.open, target, write=True)
    with os.fdopen(descriptor, "wb") as file:
        await asyncio.to_thread(file.write, source.read_bytes())
    await _told(image, "permit", path=target, mode=f"{source.stat().st_mode & 0o777:o}")


async def _run(image: Image, rest: str, _place: str) -> None:
    read, write = os.pipe()
    streams = [os.open(os.devnull, os.O_RDONLY), write, os.dup(write)]
    running = await started(image.jail, ["/bin/sh", "-c", rest], image.workdir, image.env, streams)
    stream = await reader_of(read)
    async with asyncio.timeout(RUN_SECONDS):
        output = await stream.read()
        code = await running.ended
    stream._transport.close()  # type: ignore[attr-defined]
    image.log += output.decode("utf-8", "replace").splitlines()
    if code != 0:
        raise BuildError(f"The command '/bin/sh -c {rest}' returned a non-zero code: {code}")


async def _told(image: Image, op: str, **fields: Any) -> None:
    await asyncio.to_thread(lambda: image.jail.told(op, **fields))


_STEPS: Final = {"ENV": _env, "WORKDIR": _workdir, "COPY": _copy, "RUN": _run}
