"""Images that are built of Dockerfiles: the files that the SDK brings, and the engine that builds with them."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterable, Sequence
from typing import Any, Final

from grpclib import GRPCError, Status

from tests.wire.modal.engine import EngineError
from tests.wire.modal.fleet import Built, Fleet, invalid, missing, new_id
from tests.wire.modal.machine import LABEL, Image

BUILT_OF: Final = ("dockerfile_commands", "context_mount_id", "base_images")
"""The fields of an image that are heeded."""
SPOKEN: Final = ("FROM", "ENV", "WORKDIR", "COPY", "RUN", "ARG", "USER", "LABEL")
BUILD_SECONDS: Final = 300.0
_DOCKERFILE: Final = ".wire.dockerfile"


class Workshop:
    """Builds images for a fleet. What an image was built of before is not built again."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._files: dict[str, bytes] = {}
        self._mounts: dict[str, list[Any]] = {}
        self._built: dict[str, str] = {}
        self._logs: dict[str, list[str]] = {}

    def missing(self, digests: Iterable[str]) -> list[str]:
        """Those of these files that are not here."""
        return [one for one in digests if one not in self._files]

    def put(self, asked: Any) -> None:
        """Take a file. Raises INVALID_ARGUMENT when it is another one than it says."""
        if asked.data_blob_id:
            raise GRPCError(Status.UNIMPLEMENTED, "this server takes no files of more than 4 MiB")
        if hashlib.sha256(asked.data).hexdigest() != asked.sha256_hex:
            raise invalid("the file is not what its hash says")
        self._files[asked.sha256_hex] = asked.data

    def mount(self, asked: Any) -> str:
        """The id of files under names. Raises NOT_FOUND when one was not put."""
        if absent := self.missing(one.sha256_hex for one in asked.files):
            raise missing("File", absent[0])
        mount_id = new_id("mo")
        self._mounts[mount_id] = list(asked.files)
        return mount_id

    def log(self, image_id: str) -> list[str]:
        """What the build of an image has printed."""
        return self._logs.get(image_id, [])

    async def build(self, commands: Sequence[str], mount_id: str, bases: Iterable[Any] = ()) -> str:
        """The id of an image; of one that cannot be built, with its error. Raises UNIMPLEMENTED for what is not spoken here."""
        _check(commands)
        engine_ids = {f"FROM {one.docker_tag}": f"FROM {self._fleet.image(one.image_id).engine_id}" for one in bases}
        context = self._context([engine_ids.get(line, line) for line in commands], mount_id)
        key = hashlib.sha256(context).hexdigest()
        if key not in self._built:
            image_id = new_id("im")
            self._fleet.images[image_id] = await self._made(image_id, context)
            if self._fleet.images[image_id].error:
                return image_id
            self._built[key] = image_id
        return self._built[key]

    def _context(self, commands: Sequence[str], mount_id: str) -> bytes:
        if mount_id and mount_id not in self._mounts:
            raise missing("Mount", mount_id)
        files = {one.filename.lstrip("/"): (self._files[one.sha256_hex], one.mode) for one in self._mounts.get(mount_id, ())}
        files |= {_DOCKERFILE: ("\n".join(commands).encode(), 0o644), ".dockerignore": (f"{_DOCKERFILE}\n".encode(), 0o644)}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, (data, mode) in sorted(files.items()):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(data), mode & 0o777
                archive.addfile(entry, io.BytesIO(data))
        return packed.getvalue()

    async def _made(self, image_id: str, context: bytes) -> Built:
        params = {"dockerfile": _DOCKERFILE, "labels": json.dumps({LABEL: self._fleet.owner}), "forcerm": "1"}
        try:
            said = await self._fleet.engine.build(context, params, BUILD_SECONDS)
        except EngineError as exc:
            return Built(Image(""), error=str(exc))
        self._logs[image_id] = [str(one["stream"]) for one in said if "stream" in one]
        if failed := next((one["error"] for one in said if "error" in one), None):
            return Built(Image(""), error=str(failed))
        [made] = [one["aux"]["ID"] for one in said if "aux" in one]
        return Built(Image(made))


def _check(commands: Sequence[str]) -> None:
    text = re.sub(r"\\\n", "", "\n".join(line for line in commands if line.strip() and not line.lstrip().startswith("#")))
    words = {line.split(maxsplit=1)[0].upper() for line in text.split("\n") if line.strip()}
    if unspoken := sorted(words - set(SPOKEN)):
        raise GRPCError(Status.UNIMPLEMENTED, f"this server builds no Dockerfile with {', '.join(unspoken)[:200]}")
