"""What a sandbox of the platform is: root in a container of its own, in any image, with a system that can be written."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.wire.modal.engine import Engine, EngineError
from tests.wire.modal.process import Process

LABEL: Final = "fanfold-wire"
"""Label of every container and image of a wire server: its value tells whose."""


@dataclass(frozen=True)
class Image:
    """An image of the engine, and the variables that its containers must not get: those of the machine it is a copy of."""

    engine_id: str
    unset: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Wanted:
    """A machine to make."""

    image: Image
    argv: list[str]
    owner: str
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    milli_cpu: int = 0
    memory_mib: int = 0
    network: bool = True


class Machine:
    """A container. Made by `Machine.start`; `ended` becomes its exit code."""

    def __init__(self, engine: Engine, container: str, wanted: Wanted) -> None:
        self._engine = engine
        self._container = container
        self._wanted = wanted
        self._copying = asyncio.Lock()  # the engine pauses what it copies, and starts nothing in it
        self.ended = asyncio.ensure_future(self._wait())

    @classmethod
    async def start(cls, engine: Engine, name: str, wanted: Wanted) -> Machine:
        """Make and start it. Raises `EngineError`; then nothing is left."""
        limits = {"Memory": wanted.memory_mib * 1024**2, "MemorySwap": wanted.memory_mib * 1024**2} if wanted.memory_mib else {}
        unset = [key for key in wanted.image.unset if key not in wanted.env]
        config = {
            "Image": wanted.image.engine_id,
            "Entrypoint": wanted.argv,
            "Cmd": [],
            "Env": [*unset, *(f"{key}={value}" for key, value in wanted.env.items())],
            "User": "0",
            "Labels": {LABEL: wanted.owner},
            "Healthcheck": {"Test": ["NONE"]},
            **({"WorkingDir": wanted.workdir} if wanted.workdir else {}),
            "HostConfig": {
                "NetworkMode": "bridge" if wanted.network else "none",
                "Init": True,
                "NanoCpus": wanted.milli_cpu * 1_000_000,
                "LogConfig": {"Type": "none"},
                **limits,
            },
        }
        made = await engine.ask("POST", "/containers/create", config, params={"name": name})
        try:
            await engine.ask("POST", f"/containers/{made['Id']}/start")
        except BaseException:
            await _remove(engine, made["Id"])
            raise
        return cls(engine, made["Id"], wanted)

    async def _wait(self) -> int:
        try:
            told = await self._engine.ask("POST", f"/containers/{self._container}/wait", seconds=None)
        except EngineError:
            return 137
        return int(told["StatusCode"])

    async def run(self, argv: list[str], env: dict[str, str], workdir: str | None) -> Process:
        """Start a command in it, as root. Raises `EngineError`."""
        async with self._copying:
            return await Process.start(self._engine, self._container, argv, env, workdir)

    async def copy(self) -> Image:
        """An image of all its files as they are now. Who gives up does not stop the engine, which has it paused meanwhile."""
        return await asyncio.shield(asyncio.create_task(self._copied()))

    async def _copied(self) -> Image:
        params = {"container": self._container, "pause": "1"}
        async with self._copying:
            made = await self._engine.ask("POST", "/commit", {"Labels": {LABEL: self._wanted.owner}}, params=params)
        return Image(made["Id"], self._wanted.image.unset | frozenset(self._wanted.env))

    async def kill(self) -> None:
        """End it, and remove what is left of it."""
        await _remove(self._engine, self._container)
        await asyncio.wait([self.ended])


async def _remove(engine: Engine, container: str) -> None:
    with contextlib.suppress(EngineError):
        await engine.ask("DELETE", f"/containers/{container}", params={"force": "1", "v": "1"})
