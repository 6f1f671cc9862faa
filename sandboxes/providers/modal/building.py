"""Images that Modal builds of Dockerfiles. It keeps them: who asks for the same again gets the same image."""

from __future__ import annotations

import asyncio
from typing import Final

import modal
from modal.exception import ImageBuildError

from sandboxes.errors import ImageBuildFailed
from sandboxes.providers.context import Build
from sandboxes.providers.dockerfile import check_reach
from sandboxes.providers.modal.platform import Platform
from sandboxes.providers.said import LINES, told_lines

BUILD_SECONDS: Final = 900.0
"""How long the platform may take for an image that it has not used before."""
LOG_SECONDS: Final = 15.0
"""How long it may take to tell the last lines of a build that has failed."""


async def built(platform: Platform, build: Build) -> str:
    """The id of the image (`im-...`) of a Dockerfile. Raises `Unsupported`, or `ImageBuildFailed` with its last lines."""
    check_reach(build.text, build.network, "modal")
    image = modal.Image.from_dockerfile(build.dockerfile, context_dir=build.folder, ignore=[])
    app = await platform.app()

    async def make() -> str:
        try:
            return str((await image.build.aio(app)).object_id)
        except ImageBuildError as exc:
            said = told_lines([str(exc), "\n", *await _last_lines(image)])
            raise ImageBuildFailed(f"Modal cannot build the Dockerfile: {said}") from exc

    return await platform.ask("build an image", make(), BUILD_SECONDS)


async def _last_lines(image: modal.Image) -> list[str]:
    """What a build has printed last; nothing when the platform does not tell it."""
    try:
        async with asyncio.timeout(LOG_SECONDS):
            return [entry.message async for entry in image.logs.tail.aio(LINES)]
    except Exception:  # whatever it is, it is not why the build has failed
        return []
