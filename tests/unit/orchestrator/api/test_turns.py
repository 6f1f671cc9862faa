"""Turns: few at a time, and fewer of each tenant."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from orchestrator.api.problems import Refused
from orchestrator.api.turns import Turns
from orchestrator.errors import QuotaExceeded


def test_a_tenant_has_its_share_and_no_more() -> None:
    turns = Turns(total=9, each=2)
    with turns.take("acme", "batches"):
        with turns.take("acme", "batches"), pytest.raises(QuotaExceeded, match="2 batches"), turns.take("acme", "batches"):
            pass
        with turns.take("acme", "batches"), turns.take("bravo", "batches"):
            pass


def test_all_together_have_no_more_than_the_total() -> None:
    turns = Turns(total=2, each=2)
    with ExitStack() as taken:
        for tenant in ("acme", "bravo"):
            taken.enter_context(turns.take(tenant, "batches"))
        with pytest.raises(Refused) as refused, turns.take("charlie", "batches"):
            pass
        assert (refused.value.status_code, (refused.value.headers or {})["Retry-After"]) == (503, "5")
    with turns.take("charlie", "batches"), turns.take("charlie", "batches"):
        pass


def test_a_turn_ends_also_when_it_fails() -> None:
    turns = Turns(total=1, each=1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), turns.take("acme", "batches"):
            raise ZeroDivisionError
