"""Images that Daytona builds of Dockerfiles, each when a sandbox is made of it; it has a cache of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from daytona import DaytonaError, Image

from sandboxes.errors import InvalidSpec
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.context import Build, prepared
from sandboxes.providers.dockerfile import check_reach
from sandboxes.providers.said import LINES, told_lines

BUILT: Final = "dockerfile:"
"""How the image of a Dockerfile is called in what a handle tells: this, and its hash. By that nothing can be made anew."""


@dataclass(frozen=True)
class Built:
    """An image that is to be built, while its files are there."""

    image: Image
    said: deque[str] = field(default_factory=lambda: deque(maxlen=LINES))

    def last_lines(self) -> str:
        """What the build has printed last."""
        return told_lines(f"{line}\n" for line in self.said)


@asynccontextmanager
async def built(spec: SandboxSpec) -> AsyncIterator[tuple[SandboxSpec, Built | None]]:
    """The spec with the name of the image of its Dockerfile, and that image. Raises `InvalidSpec` or `Unsupported`."""
    if spec.dockerfile is None:
        yield spec, None
        return
    async with prepared(spec) as build:
        check_reach(build.text, build.network, "daytona")
        image = await asyncio.to_thread(_image, build)
        yield spec.model_copy(update={"image": f"{BUILT}{build.digest}", "dockerfile": None}), Built(image)


def _image(build: Build) -> Image:
    """The SDK takes what COPY names from the folder of the Dockerfile, when a sandbox is made: so it is there for a moment."""
    place = build.folder / f".fanfold-{build.digest[:16]}"
    place.write_text(build.text)
    try:
        return Image.from_dockerfile(place, strict_context=True)
    except DaytonaError as exc:
        raise InvalidSpec(f"Dockerfile: {exc}") from exc
    finally:
        place.unlink()
