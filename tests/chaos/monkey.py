"""The monkey: it disturbs the world by a schedule that its seed gives, and mends each disturbance after a while."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from tests.chaos.world import Node, World

AT_ONCE = 3
"""Disturbances at the same time, at most."""
MANY = 1000
"""A target is a number below; what there is of its kind is counted from it."""

Act = Callable[[World, int], Any]


@dataclass(frozen=True)
class Kind:
    """A kind of disturbance."""

    name: str
    weight: int
    shortest: float
    longest: float
    """Seconds until it is mended."""
    begin: Act
    mend: Act = lambda world, target: None


@dataclass(frozen=True)
class Disturbance:
    """One of them."""

    at: float
    """Seconds from the beginning."""
    kind: Kind
    target: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.at:6.1f} s  {self.kind.name} {self.target} for {self.seconds:.1f} s"


def schedule(rng: random.Random, seconds: float, *, every: float, kinds: tuple[str, ...] = ()) -> list[Disturbance]:
    """What happens within so many seconds, on average one disturbance in `every`: of any kind, or of those that begin so."""
    chosen = [kind for kind in KINDS if kind.name.startswith(kinds or ("",))]
    weights = [kind.weight for kind in chosen]
    found, at = [], rng.uniform(0, every)
    while at < seconds:
        kind = rng.choices(chosen, weights)[0]
        found.append(Disturbance(at, kind, rng.randrange(MANY), rng.uniform(kind.shortest, kind.longest)))
        at += rng.expovariate(1 / every)
    return found


class Monkey:
    """Carries out a schedule, in threads of its own."""

    def __init__(self, world: World, plan: Collection[Disturbance]) -> None:
        self.done: Counter[str] = Counter()
        """How many of each kind there were."""
        self._world = world
        self._plan = plan
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="monkey")
        self._all: list[Future[None]] = []

    def run(self) -> None:
        """Disturb until the schedule is at its end, then mend what is left."""
        began = time.monotonic()
        for one in self._plan:
            time.sleep(max(0.0, began + one.at - time.monotonic()))
            self._all.append(self._pool.submit(self._disturb, one, began + one.at))
        self._stop.set()
        wait(self._all)
        self._pool.shutdown()
        self._world.heal()
        for one in self._all:
            one.result()

    def _disturb(self, one: Disturbance, due: float) -> None:
        if self._stop.is_set() or time.monotonic() - due > 5.0:  # there was too much at once
            return
        one.kind.begin(self._world, one.target)
        self.done[one.kind.name] += 1
        self._stop.wait(one.seconds)
        one.kind.mend(self._world, one.target)


def _of(role: str, target: int, world: World) -> Node:
    nodes: list[Node] = getattr(world, f"{role}s")
    return nodes[target % len(nodes)]


def _each(role: str, act: Callable[[Node], Any]) -> Act:
    return lambda world, target: act(_of(role, target, world))


def _processes(role: str, weight: int) -> list[Kind]:
    """What is done to a process itself."""
    stop, go = (_each(role, lambda node, number=number: node.signal(number)) for number in (signal.SIGSTOP, signal.SIGCONT))
    up = _each(role, Node.up)
    return [
        Kind(f"{role} killed", 3 * weight, 0.0, 2.0, _each(role, Node.kill), up),
        Kind(f"{role} paused", 2 * weight, 0.5, 8.0, stop, go),
        Kind(f"{role} told to leave", weight, 0.0, 1.0, _each(role, Node.leave), up),
    ]


def _network(role: str, weight: int) -> list[Kind]:
    """What is done to a process's network."""
    return [
        Kind(f"{role} {how} {way}", weight, 0.5, 8.0, _each(role, _link(way, act)), _each(role, _link(way, "heal")))
        for way in ("record", "broker")
        for how, act in (("cut off from the", "cut"), ("frozen on its way to the", "freeze"))
    ]  # fmt: skip


def _link(way: str, act: str) -> Callable[[Node], Any]:
    return lambda node: getattr(getattr(node, way), act)()


def _kill_with_sandbox(world: World, target: int) -> None:
    world.kill_with_sandbox(_of("worker", target, world), target)


def _cut_all(world: World, _target: int) -> None:
    for node in world.nodes:
        node.record.cut()
        node.broker.cut()


def _heal_all(world: World, _target: int) -> None:
    for node in world.nodes:
        node.record.heal()
        node.broker.heal()


def _pause(server: str, number: signal.Signals) -> Act:
    return lambda world, target: getattr(world, server).signal(number)


KINDS: list[Kind] = [
    *_processes("worker", 3),
    *_network("worker", 2),
    *_processes("controller", 1),
    *_network("controller", 1),
    *_processes("api", 1),
    *_network("api", 1),
    Kind("redis killed", 2, 0.0, 3.0, lambda world, _: world.redis.kill(), lambda world, _: world.redis.up()),
    Kind("redis paused", 2, 0.5, 6.0, _pause("redis", signal.SIGSTOP), _pause("redis", signal.SIGCONT)),
    Kind("redis emptied", 2, 0.0, 0.0, lambda world, _: world.redis.forget()),
    Kind("postgres killed", 2, 0.0, 2.0, lambda world, _: world.postgres.kill(), lambda world, _: world.postgres.up()),
    Kind("postgres lost a connection", 2, 0.0, 0.0, lambda world, _: world.postgres.kill_connection()),
    Kind("postgres paused", 2, 0.5, 6.0, _pause("postgres", signal.SIGSTOP), _pause("postgres", signal.SIGCONT)),
    Kind("postgres restarted", 1, 0.0, 0.0, lambda world, _: world.postgres.restart()),
    Kind("worker killed and a sandbox with it", 4, 0.0, 2.0, _kill_with_sandbox, _each("worker", Node.up)),
    Kind("everything cut off", 1, 0.5, 3.0, _cut_all, _heal_all),
]
