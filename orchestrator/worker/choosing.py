"""Where the sandbox of a run is made: the first of the providers that it may have which gives it, and why not one before.

A provider is passed over when it is away, has no room, is not to be tried now or would separate less than the first one; with
`auto` also when it cannot give what is asked. It is never left for another one because of what happened in a sandbox.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.runs.choice import Choices, too_weak
from orchestrator.sandboxspec import AUTO
from orchestrator.text import one_line
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.breaker import LeftAlone
from sandboxes.errors import FanfoldSandboxError, InvalidSpec, NotAuthenticated, ProviderUnavailable, RateLimited, Unsupported
from sandboxes.providers.base import SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.providers.isolation import Isolation
from sandboxes.providers.registry import get_provider, known_isolation

logger = logging.getLogger(__name__)

ASK_TIMEOUT = 10.0
"""Seconds for one of several providers to say whether it can give what is asked."""
WAIT_MOST = 60.0
"""Seconds that a run waits here for a provider that is left alone or full; then it fails."""
FULL_POLL = 1.0
"""Seconds between two looks whether a provider that is full has room."""
MAX_REASON = 400
"""Characters of a reason."""


class _Weaker(Unsupported):
    """It would separate less than the provider whose place it would take."""


@dataclass(frozen=True)
class PassedOver:
    """A provider that did not get the sandbox."""

    provider: str
    error: FanfoldSandboxError
    """Why."""
    wait: float | None = None
    """Seconds until it is worth trying again; None when waiting for it is not for us."""

    @property
    def reason(self) -> str:
        """Why, in a line."""
        return one_line(str(self.error), MAX_REASON)


class Choosing:
    """Of one attempt. It opens providers, and closes them in the end."""

    def __init__(self, work: Assignment) -> None:
        self.begun = False
        """Whether a provider was asked to make the sandbox: then there may be one, whatever came of it."""
        self._work = work
        self._choices = Choices(work.store.engine, work.policy)
        self._asked = work.spec.sandbox.asked
        self._opened: dict[str, SandboxProvider] = {}
        self._current: str | None = None

    @property
    def provider(self) -> SandboxProvider:
        """Whose sandbox it is, or is going to be as far as that is known. Raises as `get_provider`."""
        return self.open(self._current or self._work.run.provider)

    def open(self, name: str) -> SandboxProvider:
        """The provider of this name. Raises as `get_provider`."""
        if name not in self._opened:
            self._opened[name] = get_provider(name, home=self._work.settings.home)
        return self._opened[name]

    async def aclose(self) -> None:
        """Close what was opened."""
        while self._opened:
            await self._opened.popitem()[1].aclose()

    async def check(self, spec: SandboxSpec) -> None:
        """Find out where the sandbox is likely to be made, later. Raises when none of them would make it now."""
        names, passed = await self._candidates(spec)
        if not names:
            raise self._refusal(passed)
        if not self._chooses:
            await self._ask(names[0], spec)
        self._current = names[0]

    async def make(self, spec: SandboxSpec, labels: Mapping[str, str]) -> SandboxHandle:
        """Make the sandbox; the run counts for its provider from then on. Raises an error of the `sandboxes` package."""
        late = time.monotonic() + WAIT_MOST
        waited = False
        while True:
            names, passed = await self._candidates(spec)
            handle = await self._first(names, passed, spec, labels)
            if handle is not None:
                self._tell(handle.provider, passed)
                return handle
            wait = min((one.wait for one in passed if one.wait is not None), default=None)
            if wait is None or time.monotonic() + wait > late:
                raise self._refusal(passed)
            if not waited:
                self._work.recorder.log("warning", f"waits for a provider: {_told(passed)}")
            waited = True
            await asyncio.sleep(wait)

    # Who comes into question

    async def _candidates(self, spec: SandboxSpec) -> tuple[list[str], list[PassedOver]]:
        """Those to be tried, the preferred one first, and why others are not."""
        names, passed = await self._names()
        if not self._chooses:
            return names, passed
        allowed = [name for name in names if not self._is_too_weak(name, names[0], passed)]
        refused = dict(zip(allowed, await asyncio.gather(*(self._why_not(name, spec) for name in allowed)), strict=True))
        passed += [PassedOver(name, why, self._wait_after(name, why)) for name, why in refused.items() if why]
        if self._asked != (AUTO,):
            self._refuse_impossible(passed)
        return [name for name in allowed if refused[name] is None], passed

    @property
    def _chooses(self) -> bool:
        return len(self._asked) > 1 or self._asked == (AUTO,)

    async def _names(self) -> tuple[list[str], list[PassedOver]]:
        names = list(self._work.policy.candidates(self._asked))
        if self._asked != (AUTO,) or self._work.policy.providers:
            return names, []
        # Nobody lists docker for this machine: where no engine answers, it is no place that another one stands in for.
        try:
            async with asyncio.timeout(ASK_TIMEOUT):
                await self.open(names[0]).capabilities()
        except TimeoutError:
            return names[1:], [PassedOver(names[0], _silent(names[0]))]
        except ProviderUnavailable as exc:
            return names[1:], [PassedOver(names[0], exc)]
        return names, []

    def _is_too_weak(self, name: str, first: str, passed: list[PassedOver]) -> bool:
        if self._work.spec.sandbox.weaker_isolation == "allow":
            return False
        one, other = self._isolation(name) or "process", self._isolation(first) or "machine"
        if why := too_weak(name, one, first, other):
            passed.append(PassedOver(name, _Weaker(why)))
        return why is not None

    def _isolation(self, name: str) -> Isolation | None:
        """What the provider declares; None when it cannot even be loaded here, and is none of ours."""
        try:
            return self.open(name).isolation
        except ProviderUnavailable:
            return known_isolation(name)

    async def _why_not(self, name: str, spec: SandboxSpec) -> FanfoldSandboxError | None:
        """Why one of several is not to be tried now, as far as it can say without making anything."""
        breaker = self._work.breakers.of(name)
        try:
            breaker.check()
            async with asyncio.timeout(ASK_TIMEOUT):
                await self._ask(name, spec)
        except LeftAlone as exc:
            return exc
        except NotAuthenticated:  # which matters when it is its turn
            return None
        except TimeoutError:
            return self._outage(name, _silent(name))
        except ProviderUnavailable as exc:
            return self._outage(name, exc)
        except (Unsupported, InvalidSpec) as exc:
            return exc
        return None

    def _outage(self, name: str, why: ProviderUnavailable) -> ProviderUnavailable:
        self._work.breakers.of(name).failed(why)
        self._work.telemetry.metrics.sandbox_failed(name)
        return why

    async def _ask(self, name: str, spec: SandboxSpec) -> None:
        """Raises what `SandboxProvider.check` raises."""
        provider = self.open(name)
        await provider.check(spec)
        if self._work.spec.pauses and not (await provider.capabilities()).pause:
            raise Unsupported(f"provider '{name}' cannot pause a sandbox (agent.while_waiting)")

    def _refuse_impossible(self, passed: Sequence[PassedOver]) -> None:
        """A task that names providers has to be one that each of them can give, and not only in an outage."""
        refused = [one for one in passed if isinstance(one.error, Unsupported | InvalidSpec)]
        if cannot := [one for one in refused if not isinstance(one.error, _Weaker)]:
            raise Unsupported(f"sandbox.providers: not all of them can give what is asked: {_told(cannot)}")

    # Trying them

    async def _first(
        self, names: Sequence[str], passed: list[PassedOver], spec: SandboxSpec, labels: Mapping[str, str]
    ) -> SandboxHandle | None:
        """A sandbox of the first that makes one; `passed` is told of those before it."""
        for name in names:
            try:
                if not await self._move(name):
                    full = ProviderUnavailable("as many runs as the operator allows have sandboxes there")
                    passed.append(PassedOver(name, full, FULL_POLL))
                    continue
                return await self._create(name, spec, labels)
            except NotAuthenticated as exc:
                if not self._chooses or self._work.policy.rule(name).not_authenticated == "fail":
                    raise
                passed.append(PassedOver(name, exc))
            except ProviderUnavailable as exc:
                passed.append(PassedOver(name, exc, self._wait_after(name, exc)))
        return None

    async def _create(self, name: str, spec: SandboxSpec, labels: Mapping[str, str]) -> SandboxHandle:
        self._current = name
        with self._work.breakers.of(name).trying(), self._work.telemetry.metrics.sandbox_starting(name):
            if not self._chooses:
                await self._ask(name, spec)
            self.begun = True
            return await self.open(name).create(spec, labels)

    def _wait_after(self, name: str, why: FanfoldSandboxError) -> float | None:
        """How long to wait for who is not to be tried now, or said when to come again. An outage is not waited out here."""
        if isinstance(why, LeftAlone):
            return why.wait
        if isinstance(why, RateLimited) and why.retry_after is not None:
            return self._work.breakers.of(name).rest
        return None

    async def _move(self, name: str) -> bool:
        """Count for this provider; whether that is possible."""
        work = self._work
        if name == work.run.provider:
            return True
        if not await asyncio.to_thread(self._choices.move, work.lease, name):
            return False
        work.run = replace(work.run, provider=name)
        return True

    # Telling it

    def _tell(self, name: str, passed: Sequence[PassedOver]) -> None:
        if not self._chooses:
            return
        order = self._work.policy.candidates(self._asked)
        passed = sorted(
            (one for one in passed if order.index(one.provider) < order.index(name)), key=lambda one: order.index(one.provider)
        )
        over = [{"provider": one.provider, "reason": one.reason} for one in passed]
        self._work.recorder.emit("provider.chosen", {"provider": name, "passed_over": over})
        told = f"; passed over: {_told(passed)}" if passed else ""
        logger.info("%s: its sandbox is on %s%s", self._work.run.id, name, told)

    def _refusal(self, passed: Sequence[PassedOver]) -> FanfoldSandboxError:
        """What is raised when none makes the sandbox."""
        if not self._chooses:
            return passed[0].error
        possible = [one for one in passed if isinstance(one.error, ProviderUnavailable)]
        kind = ProviderUnavailable if possible else Unsupported
        return kind(f"no provider makes the sandbox: {_told(passed)}")


def _silent(name: str) -> ProviderUnavailable:
    return ProviderUnavailable(f"provider '{name}' does not say within {ASK_TIMEOUT:.0f} s what it can do")


def _told(passed: Sequence[PassedOver]) -> str:
    return "; ".join(f"{one.provider}: {one.reason}" for one in passed)
