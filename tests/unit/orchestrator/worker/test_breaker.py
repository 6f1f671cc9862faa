"""A provider that is away is left alone for a while, and one run finds out whether it is back."""

from __future__ import annotations

import asyncio

import pytest

from orchestrator.policy import Policy
from orchestrator.providerrules import BreakerRule
from orchestrator.telemetry.metrics import Metrics
from orchestrator.worker.breaker import LONGEST, Breaker, Breakers, Circuit, LeftAlone
from sandboxes.errors import ImageNotFound, NotAuthenticated, ProviderUnavailable, QuotaExceeded, RateLimited

RULE = BreakerRule(failures=3, window=60, cool_down=30)


class Scene:
    """A breaker, and a clock that a test moves on."""

    def __init__(self) -> None:
        self.moment = 1000.0
        self.breaker = Breaker("cloud", RULE, lambda: self.moment)

    def fails(self, *errors: Exception) -> None:
        for error in errors:
            with pytest.raises(type(error)), self.breaker.trying():
                raise error

    def works(self) -> None:
        with self.breaker.trying():
            pass


@pytest.fixture
def scene() -> Scene:
    return Scene()


AWAY = ProviderUnavailable("no engine answers")


def test_it_opens_after_so_many_outages_in_a_row(scene: Scene) -> None:
    scene.fails(AWAY, QuotaExceeded("3 of 3"))
    assert scene.breaker.state is Circuit.CLOSED
    scene.fails(AWAY)
    assert scene.breaker.state is Circuit.OPEN
    with pytest.raises(LeftAlone, match=r"left alone for 30\.0 s more, after it was away: no engine answers") as told:
        scene.works()
    assert told.value.wait == 30


def test_a_sandbox_that_was_made_ends_the_row(scene: Scene) -> None:
    scene.fails(AWAY, AWAY)
    scene.works()
    scene.fails(AWAY, AWAY)
    assert scene.breaker.state is Circuit.CLOSED


def test_outages_that_are_far_apart_are_no_row(scene: Scene) -> None:
    for _ in range(5):
        scene.fails(AWAY)
        scene.moment += 31
    assert scene.breaker.state is Circuit.CLOSED


def test_what_says_nothing_about_the_platform_does_not_count(scene: Scene) -> None:
    scene.fails(*[ImageNotFound("no such image"), NotAuthenticated("the key is refused")] * 5)
    assert scene.breaker.state is Circuit.CLOSED


def test_after_the_cool_down_one_run_tries_and_the_others_do_not(scene: Scene) -> None:
    scene.fails(AWAY, AWAY, AWAY)
    scene.moment += 30
    assert scene.breaker.state is Circuit.HALF_OPEN
    with scene.breaker.trying(), pytest.raises(LeftAlone, match="while one run tries whether it is back"):
        scene.works()
    assert scene.breaker.state is Circuit.CLOSED


def test_a_trial_that_fails_opens_it_again(scene: Scene) -> None:
    scene.fails(AWAY, AWAY, AWAY)
    scene.moment += 30
    scene.fails(AWAY)
    assert scene.breaker.state is Circuit.OPEN
    assert scene.breaker.rest == 30


def test_a_trial_that_is_cancelled_leaves_it_to_the_next_one(scene: Scene) -> None:
    scene.fails(AWAY, AWAY, AWAY)
    scene.moment += 30
    scene.fails(asyncio.CancelledError())
    assert scene.breaker.state is Circuit.HALF_OPEN
    scene.works()
    assert scene.breaker.state is Circuit.CLOSED


@pytest.mark.parametrize(("asked", "rest"), [(7.0, 7.0), (0.0, 0.0), (-5.0, 0.0), (1e9, LONGEST)])
def test_a_platform_that_says_when_to_come_again_is_left_alone_until_then(scene: Scene, asked: float, rest: float) -> None:
    scene.fails(RateLimited("slow down", retry_after=asked))
    assert scene.breaker.rest == rest


def test_a_platform_that_does_not_say_when_counts_as_any_outage(scene: Scene) -> None:
    scene.fails(RateLimited("slow down"))
    assert scene.breaker.state is Circuit.CLOSED


def test_each_provider_has_its_own_and_metrics_show_them() -> None:
    metrics = Metrics()
    breakers = Breakers(Policy.model_validate({"providers": {"modal": {"breaker": {"failures": 1}}}}), metrics)
    for name in ("modal", "docker"):
        with pytest.raises(ProviderUnavailable), breakers.of(name).trying():
            raise AWAY
    assert 'fanfold_provider_circuit{provider="modal"} 2.0' in metrics.render().decode()
    assert 'fanfold_provider_circuit{provider="docker"} 0.0' in metrics.render().decode()
