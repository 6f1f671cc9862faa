"""What the platform knows: apps, images, sandboxes with their machines, and dicts. All of it ends with the server."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import string
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from grpclib import GRPCError, Status
from modal_proto import api_pb2

from tests.wire.modal.engine import Engine, EngineError
from tests.wire.modal.machine import LABEL, Image, Machine, Wanted
from tests.wire.modal.process import Process

TAG: Final = re.compile(r"[a-zA-Z0-9._-]{1,63}")
NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,64}")
LONGEST: Final = 86400
"""Seconds that a sandbox lives at most."""
_ALPHABET: Final = string.ascii_uppercase + string.digits
Result = api_pb2.GenericResult


def new_id(kind: str) -> str:
    """An id that the SDK takes for one of the second kind: not `sb-` and 22 characters."""
    return f"{kind}-01{''.join(secrets.choice(_ALPHABET) for _ in range(24))}"


def missing(what: str, id_: str) -> GRPCError:
    """NOT_FOUND."""
    return GRPCError(Status.NOT_FOUND, f"{what} {id_!r} not found")


def invalid(message: str) -> GRPCError:
    """INVALID_ARGUMENT."""
    return GRPCError(Status.INVALID_ARGUMENT, message)


@dataclass
class Sandbox:
    """One sandbox, running or ended."""

    id: str
    task_id: str
    app_id: str
    name: str
    tags: dict[str, str]
    machine: Machine
    definition: api_pb2.Sandbox
    created_at: float = field(default_factory=time.time)
    result: Result = field(default_factory=Result)
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    processes: dict[str, Process] = field(default_factory=dict)
    active_at: float = field(default_factory=time.monotonic)
    watch: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.result.status == Result.GENERIC_STATUS_UNSPECIFIED

    @property
    def busy(self) -> bool:
        """Whether a command runs that an exec has started."""
        return any(not process.ended.done() for process in self.processes.values())


@dataclass
class Built:
    """An image of the platform: what it is built of, and when it goes."""

    image: Image
    expires_at: float | None = None
    error: str = ""


class Fleet:
    """Everything of one server. Lives on the server's loop."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.engine = Engine()
        self.apps: dict[str, str] = {}
        self.images: dict[str, Built] = {}
        self.sandboxes: dict[str, Sandbox] = {}
        self.dicts: dict[str, dict[bytes, bytes]] = {}
        self._copies: dict[str, str] = {}

    def sandbox(self, sandbox_id: str) -> Sandbox:
        """Raises NOT_FOUND."""
        if sandbox_id not in self.sandboxes:
            raise missing("Sandbox", sandbox_id)
        return self.sandboxes[sandbox_id]

    def task(self, task_id: str) -> Sandbox:
        """The running sandbox of a task. Raises NOT_FOUND, as for one that has ended."""
        found = next((one for one in self.sandboxes.values() if one.task_id == task_id and one.runs), None)
        if found is None:
            raise missing("Task", task_id)
        found.active_at = time.monotonic()
        return found

    def named(self, app_id: str | None, name: str, *, terminated: bool = False) -> Sandbox | None:
        """The running sandbox of this name, or else the last one that ended."""
        named = [one for one in self.sandboxes.values() if one.app_id == app_id and one.name == name]
        found = [one for one in named if one.runs or terminated]
        return max(found, key=lambda one: (one.runs, one.created_at), default=None)

    async def build(self, tag: str) -> str:
        """The id of an image of the engine that has this name; one that is missing is an image whose build failed."""
        image_id = new_id("im")
        try:
            told = await self.engine.ask("GET", f"/images/{tag}/json")
            self.images[image_id] = Built(Image(told["Id"]))
        except EngineError as exc:
            self.images[image_id] = Built(Image(""), error=f"Failed to pull {tag}: {exc}")
        return image_id

    def image(self, image_id: str) -> Image:
        """Raises NOT_FOUND, also when its time is over."""
        built = self.images.get(image_id)
        if built is None or (built.expires_at is not None and time.time() > built.expires_at):
            raise missing("Image", image_id)
        return built.image

    async def copy(self, sandbox: Sandbox, key: str, ttl: int) -> str:
        """Keep all files of a sandbox as an image, for `ttl` seconds; -1 is for ever. Once for each key."""
        if key not in self._copies:
            image = await sandbox.machine.copy()
            self._copies[key] = image_id = new_id("im")
            self.images[image_id] = Built(image, None if ttl < 0 else time.time() + ttl)
        return self._copies[key]

    async def create(
        self,
        app_id: str,
        definition: api_pb2.Sandbox,
        env: dict[str, str],
        tags: dict[str, str],
        ids: tuple[str, str] | None = None,
    ) -> Sandbox:
        """Make a sandbox; `ids` are its own and its task's, when they are to tell another kind. Raises `GRPCError`."""
        self._check(app_id, definition, tags)
        kind = definition.network_access.network_access_type
        wanted = Wanted(
            image=self.image(definition.image_id),
            argv=list(definition.entrypoint_args),
            owner=self.owner,
            env=env,
            workdir=definition.workdir or None,
            milli_cpu=definition.resources.milli_cpu_max,
            memory_mib=definition.resources.memory_mb_max,
            # Nothing here could tell hosts apart: an allowlist lets nothing through at all.
            network=kind == api_pb2.NetworkAccess.NetworkAccessType.OPEN,
        )
        sandbox_id, task_id = ids or (new_id("sb"), new_id("ta") + "V")
        try:
            machine = await Machine.start(self.engine, f"{definition.name or sandbox_id}-{sandbox_id[-6:]}", wanted)
        except EngineError as exc:
            raise GRPCError(Status.INTERNAL, str(exc)) from exc
        made = Sandbox(sandbox_id, task_id, app_id, definition.name, tags, machine, definition)
        self.sandboxes[sandbox_id] = made
        made.watch += [asyncio.create_task(self._until_exit(made)), asyncio.create_task(self._until_late(made))]
        return made

    def _check(self, app_id: str, definition: api_pb2.Sandbox, tags: dict[str, str]) -> None:
        if app_id not in self.apps.values():
            raise missing("App", app_id)
        if definition.name and not NAME.fullmatch(definition.name):
            raise invalid(f"Invalid Sandbox name: {definition.name!r}")
        if not 0 < definition.timeout_secs <= LONGEST:
            raise invalid(f"timeout must be between 1 and {LONGEST} seconds, got {definition.timeout_secs}")
        if not definition.entrypoint_args:
            raise invalid("this server starts no image's own command: give one")
        if kinds := [kind for kind in ("volume_mounts", "mount_ids", "secret_ids", "nfs_mounts") if getattr(definition, kind)]:
            raise GRPCError(Status.UNIMPLEMENTED, f"this server has no {', '.join(kinds)}")
        check_tags(tags.items())
        if definition.name and self.named(app_id, definition.name) is not None:
            raise GRPCError(Status.ALREADY_EXISTS, f"Sandbox with name {definition.name!r} already exists")

    async def _until_exit(self, sandbox: Sandbox) -> None:
        code = await asyncio.shield(sandbox.machine.ended)
        status = Result.GENERIC_STATUS_SUCCESS if code == 0 else Result.GENERIC_STATUS_FAILURE
        await self.end(sandbox, Result(status=status, exitcode=code))

    async def _until_late(self, sandbox: Sandbox) -> None:
        end, idle = time.monotonic() + sandbox.definition.timeout_secs, sandbox.definition.idle_timeout_secs
        while (now := time.monotonic()) < end:
            if sandbox.busy:
                sandbox.active_at = now
            if idle and now - sandbox.active_at > idle:
                return await self.end(sandbox, Result(status=Result.GENERIC_STATUS_SUCCESS))
            await asyncio.sleep(min(end - now, 0.1 if idle else end - now))
        return await self.end(sandbox, Result(status=Result.GENERIC_STATUS_TIMEOUT))

    async def end(self, sandbox: Sandbox, result: Result) -> None:
        """End a sandbox, with this result unless it has one."""
        if sandbox.runs:
            sandbox.result = result
        await sandbox.machine.kill()
        for process in sandbox.processes.values():
            await process.aclose()
        sandbox.finished.set()
        for task in sandbox.watch:
            if task is not asyncio.current_task():
                task.cancel()

    async def delete_image(self, image_id: str) -> None:
        """Forget an image. Raises NOT_FOUND. The engine's own goes with the server: others may stand on it."""
        self.image(image_id)
        del self.images[image_id]

    async def aclose(self) -> None:
        """End every sandbox and remove every copy."""
        terminated = Result(status=Result.GENERIC_STATUS_TERMINATED)
        await asyncio.gather(*(self.end(one, terminated) for one in self.sandboxes.values()))
        await self._remove_copies()
        await self.engine.aclose()

    async def _remove_copies(self) -> None:
        """Also of those whose copying nobody has waited for. The youngest go first: they stand on the others."""
        filters = json.dumps({"label": [f"{LABEL}={self.owner}"]})
        found = await self.engine.ask("GET", "/images/json", params={"filters": filters, "all": "1"})
        for copied in sorted(found, key=lambda one: one["Created"], reverse=True):
            try:
                await self.engine.ask("DELETE", f"/images/{copied['Id']}", params={"force": "1"})
            except EngineError as exc:
                if exc.status not in (404, 409):
                    raise


def check_tags(tags: Iterable[tuple[str, str]]) -> None:
    """Raise INVALID_ARGUMENT for what the platform takes as no tag."""
    wrong = [word for tag in tags for word in tag if not TAG.fullmatch(word)]
    if wrong:
        raise invalid(f"Invalid tag: {wrong[0]!r}: alphanumeric characters, dashes, periods or underscores, at most 63")
