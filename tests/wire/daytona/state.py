"""What the wire server knows: sandboxes, snapshots, and what Daytona tells of them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sandboxes.providers.local.removal import remove_tree
from tests.wire.daytona.faults import Faults
from tests.wire.daytona.jail import Jail, Kind, Yard
from tests.wire.daytona.workshop import BuildError, Recipe, Unspoken, Workshop

ORGANIZATION: Final = "00000000-0000-4000-8000-00000000beef"
IMAGES: Final = {"python:3.12-slim": True, "fanfold-test/base:latest": True, "fanfold-test/nopython:latest": False}
"""The images that a build can begin with, and whether they have Python."""
DEFAULT_SNAPSHOT: Final = "daytonaio/sandbox:default"
TICK: Final = 0.05
"""Seconds between two looks at intervals."""
ENDED: Final = ("destroyed", "destroying")


class Refused(Exception):
    """A refusal, as the API words it."""

    def __init__(self, status: int, message: str, *, source: str = "DAYTONA_API", code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.source, self.code = status, message, source, code


def stamp(seconds: float | None = None) -> str:
    """A moment as the API writes it; now by default."""
    return datetime.fromtimestamp(time.time() if seconds is None else seconds, UTC).isoformat().replace("+00:00", "Z")


@dataclass
class Box:
    """A sandbox. `told` are the fields of the API that are kept as they came."""

    id: str
    name: str
    kind: Kind
    jail: Jail
    told: dict[str, Any]
    labels: dict[str, str]
    env: dict[str, str]
    state: str = "creating"
    error: str | None = None
    created: float = field(default_factory=time.time)
    active: float = field(default_factory=time.monotonic)
    stopped: float = 0.0
    born: float = field(default_factory=time.monotonic)
    built: list[str] = field(default_factory=list)
    """What the build of its image has printed."""
    terminals: dict[str, Any] = field(default_factory=dict)
    sessions: dict[str, Any] = field(default_factory=dict)
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    def minutes(self, name: str) -> float:
        """One of the intervals; infinite when it is off."""
        value = self.told.get(name)
        off = value is None or value < 0 or (value == 0 and name != "autoDeleteInterval")
        return math.inf if off else float(value)


@dataclass
class Kept:
    """A snapshot."""

    id: str
    name: str
    folder: Path
    kind: Kind
    source: str | None
    state: str = "snapshotting"
    created: float = field(default_factory=time.time)


Notify = Callable[[str, dict[str, Any]], Awaitable[None]]


class World:
    """All sandboxes and snapshots of one organization."""

    def __init__(self, yard: Yard, faults: Faults, sandbox_class: str) -> None:
        self.yard, self.faults, self.sandbox_class = yard, faults, sandbox_class
        self.workshop = Workshop(yard)
        self.url = ""
        self.boxes: dict[str, Box] = {}
        self.kept: dict[str, Kept] = {}
        self.notify: Notify | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.created = 0
        """How many sandboxes were ever made: what an account pays for."""
        self._tasks: set[asyncio.Task[None]] = set()

    # -- looking

    def box(self, id_or_name: str) -> Box:
        """A sandbox that is there."""
        for one in self.boxes.values():
            if id_or_name in (one.id, one.name) and one.state != "destroyed":
                return one
        raise Refused(404, f"Sandbox with ID or name {id_or_name} not found")

    def snapshot(self, id_or_name: str) -> Kept:
        """A snapshot that is there."""
        for one in self.kept.values():
            if id_or_name in (one.id, one.name):
                return one
        raise Refused(404, f"Snapshot with ID or name {id_or_name} not found")

    def described(self, box: Box, *, listed: bool = False) -> dict[str, Any]:
        """A sandbox as the API tells of it."""
        told: dict[str, Any] = {
            "id": box.id, "organizationId": ORGANIZATION, "name": box.name, "labels": box.labels, "state": box.state,
            "cpu": box.kind.cpu, "memory": box.kind.memory, "gpu": 0, "kvm": False, "sandboxClass": self.sandbox_class,
            "toolboxProxyUrl": f"{self.url}/toolbox", "createdAt": stamp(box.created), "updatedAt": stamp(),
            "errorReason": box.error, "desiredState": "started", **box.told,
        }  # fmt: skip
        if not listed:
            told["env"] = box.env
        return told

    def described_snapshot(self, kept: Kept) -> dict[str, Any]:
        """A snapshot as the API tells of it."""
        return {
            "id": kept.id, "organizationId": ORGANIZATION, "general": False, "name": kept.name, "state": kept.state,
            "imageName": None, "size": None, "entrypoint": None, "cpu": kept.kind.cpu, "gpu": 0, "mem": kept.kind.memory,
            "disk": 3, "errorReason": None, "createdAt": stamp(kept.created), "updatedAt": stamp(), "lastUsedAt": None,
            "sourceSandboxId": kept.source,
        }  # fmt: skip

    # -- making

    def admit(self, name: str | None) -> str:
        """The name of a new sandbox, when there is room for it, and nobody has its name."""
        if self.faults.quota:
            raise Refused(403, "Total CPU limit exceeded. Maximum allowed: 10. To increase it, upgrade your tier.")
        chosen = name or f"sandbox-{uuid.uuid4().hex[:12]}"
        if any(one.name == chosen and one.state != "destroyed" for one in self.boxes.values()):
            raise Refused(409, f"Sandbox with name {chosen} already exists")
        return chosen

    def new_box(self, name: str, kind: Kind, told: dict[str, Any], labels: dict[str, str], env: dict[str, str]) -> Box:
        """The record of a new sandbox."""
        id_ = str(uuid.uuid4())
        box = Box(id_, name, kind, self.yard / id_, told, labels, env)
        self.boxes[id_] = box
        self.created += 1
        return box

    def begin(self, work: Awaitable[None]) -> None:
        """Do something after the answer."""

        async def done() -> None:
            await work

        task = asyncio.ensure_future(done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def start(self, box: Box, layers: Path | None) -> None:
        """Make and start what the record tells of, with copies of layers."""
        if self.faults.stuck:
            return
        async with box.busy:
            if box.state in ENDED:
                return
            try:
                await asyncio.to_thread(box.jail.make, layers)
                await asyncio.to_thread(box.jail.start, box.kind)
            except Exception as exc:
                box.error = str(exc)
                await self.change(box, "error")
                return
            if box.state not in ENDED:
                box.active = time.monotonic()
                await self.change(box, "started")

    async def build(self, box: Box, recipe: Recipe, contexts: Sequence[str]) -> None:
        """Make the image of a record, and then start what it tells of."""
        image = self.workshop.image(recipe, contexts, box.kind)
        try:
            await self.workshop.built(recipe, contexts, box.kind)
        except BuildError as exc:
            box.error = str(exc)
        box.built = image.log
        if box.error is not None:
            await self.change(box, "build_failed")
            return
        box.env = {**image.env, **box.env}
        await self.start(box, image.layers)

    async def change(self, box: Box, state: str) -> None:
        """Let a sandbox be in another state, and tell whoever listens."""
        old, box.state = box.state, state
        if self.notify is not None:
            told = {"sandbox": self.described(box), "oldState": old, "newState": state}
            await self.notify("sandbox.state.updated", told)

    async def stop(self, box: Box, state: str = "stopped") -> None:
        """Kill everything in it; its files stay."""
        async with box.busy:
            if box.state in ENDED:
                return
            box.stopped = time.monotonic()
            await self.change(box, state)
            await asyncio.to_thread(box.jail.stop)

    async def destroy(self, box: Box) -> None:
        """Remove it."""
        if box.state in ENDED:
            return
        await self.change(box, "destroying")
        async with box.busy:
            await asyncio.to_thread(box.jail.remove)
        await self.change(box, "destroyed")

    async def fork(self, parent: Box, name: str | None) -> Box:
        """Begin a copy of a running sandbox of a class that can be forked."""
        if self.sandbox_class == "container":
            raise Refused(422, "Forking is not supported for this sandbox")
        if parent.state != "started":
            raise Refused(400, "Sandbox must be in started state to fork")
        box = self.new_box(self.admit(name), parent.kind, dict(parent.told), dict(parent.labels), dict(parent.env))
        parent.state = "forking"
        self.begin(self._forked(parent, box))
        return box

    async def _forked(self, parent: Box, box: Box) -> None:
        layers = self.yard.top / f"fork-{box.id}"
        try:
            await asyncio.to_thread(parent.jail.copy_to, layers)
        finally:
            if parent.state == "forking":
                await self.change(parent, "started")
        await self.start(box, layers)
        await asyncio.to_thread(remove_tree, layers)

    async def keep(self, box: Box, name: str) -> None:
        """Begin a snapshot of a sandbox."""
        if self.faults.no_snapshots:
            raise Refused(422, "Snapshots are not supported for this sandbox")
        if box.state != "started":
            raise Refused(400, "Sandbox must be in started or stopped state to create a snapshot")
        if any(one.name == name for one in self.kept.values()):
            raise Refused(409, f"Snapshot with name {name} already exists")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,254}", name):
            raise Refused(400, "Invalid snapshot name")
        id_ = str(uuid.uuid4())
        kept = Kept(id_, name, self.yard.top / f"kept-{id_}", box.kind, box.id)
        self.kept[id_] = kept
        box.state = "snapshotting"
        self.begin(self._keep(box, kept))

    async def _keep(self, box: Box, kept: Kept) -> None:
        try:
            await asyncio.to_thread(box.jail.copy_to, kept.folder)
            kept.state = "active"
        except Exception:
            kept.state = "error"
        finally:
            if box.state == "snapshotting":
                await self.change(box, "started")
        if kept.id not in self.kept:
            await asyncio.to_thread(remove_tree, kept.folder)

    async def forget(self, kept: Kept) -> None:
        """Remove a snapshot."""
        del self.kept[kept.id]
        await asyncio.to_thread(remove_tree, kept.folder)

    # -- the clock

    async def watch(self) -> None:
        """Stop, delete and destroy what has had its time, for as long as the server runs."""
        while True:
            await asyncio.sleep(TICK)
            for box in list(self.boxes.values()):
                with contextlib.suppress(Refused):
                    await self._look(box)

    async def _look(self, box: Box) -> None:
        now, minute = time.monotonic(), self.faults.minute
        if box.state in ENDED:
            return
        if box.state == "started" and not box.busy.locked() and box.jail.process() is None:
            await self.stop(box)  # its first process was killed
        elif now - box.born > box.minutes("ttlMinutes") * minute:
            await self.destroy(box)
        elif box.state == "started" and now - box.active > box.minutes("autoStopInterval") * minute:
            await self.stop(box)
        elif box.state == "stopped" and now - box.stopped > box.minutes("autoDeleteInterval") * minute:
            await self.destroy(box)

    async def close(self) -> None:
        """Remove everything."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for box in self.boxes.values():
            await asyncio.to_thread(box.jail.stop)
        await asyncio.to_thread(remove_tree, self.yard.top)


def kind_of(body: Mapping[str, Any], snapshot: Kept | None) -> Kind:
    """What a sandbox is to be, from the request for it."""
    network = not (body.get("networkBlockAll") or body.get("networkAllowList") or body.get("domainAllowList"))
    if snapshot is not None:
        return replace(snapshot.kind, network=network)
    root = body.get("user") in ("root", "0")
    sizes = {name: body[name] for name in ("cpu", "memory") if body.get(name) is not None}
    built = "buildInfo" in body and bool(recipe_of(body["buildInfo"]).steps)
    return Kind(root=root, python=_has_python(body), built=built, network=network, **sizes)


def _has_python(body: Mapping[str, Any]) -> bool:
    build = body.get("buildInfo")
    if build is None:
        return True
    image = recipe_of(build).base
    if image not in IMAGES:
        raise LookupError(image)
    return IMAGES[image]


def recipe_of(build: Mapping[str, Any]) -> Recipe:
    """How an image is to be built."""
    try:
        return Recipe.of(build["dockerfileContent"])
    except Unspoken as exc:
        raise Refused(400, str(exc)) from exc
