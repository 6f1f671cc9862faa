"""A sandbox that somebody keeps stays until then, and whose it is only its own tenant is told."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from orchestrator.runs import service_tables as s
from orchestrator.runs.keeping import Keeping, Owner
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store

ONE, OTHER = "sbx-0000000000000001", "sbx-0000000000000002"
RUN = "run-0123456789ab"
AT_ONCE = 8


@pytest.fixture
def keeping(database: str, tmp_path: Path, clock) -> Iterator[Keeping]:
    opened = Keeping(open_database(database, tmp_path / "lock"), clock)
    yield opened
    opened.close()


def test_nothing_is_kept_unless_somebody_says_so(keeping: Keeping) -> None:
    assert not keeping.is_kept(ONE)
    assert keeping.kept([ONE, OTHER]) == {}
    assert keeping.kept([]) == {}


def test_a_sandbox_is_kept_until_its_time_is_over(keeping: Keeping, clock) -> None:
    until = keeping.keep(ONE, RUN, 60.0)
    assert abs(until - clock() - timedelta(seconds=60)) < timedelta(seconds=10)
    assert keeping.kept([ONE, OTHER]) == {ONE: until}
    clock.advance(61)
    assert not keeping.is_kept(ONE)


def test_the_last_word_holds(keeping: Keeping, clock) -> None:
    keeping.keep(ONE, RUN, 3600.0)
    until = keeping.keep(ONE, RUN, 60.0)
    assert keeping.kept([ONE]) == {ONE: until}
    clock.advance(61)
    assert not keeping.is_kept(ONE)


def test_what_is_let_go_is_not_kept(keeping: Keeping) -> None:
    keeping.keep(ONE, RUN, 60.0)
    keeping.keep(OTHER, RUN, 60.0)
    keeping.let_go(ONE)
    keeping.let_go(ONE)
    assert [keeping.is_kept(ONE), keeping.is_kept(OTHER)] == [False, True]


def test_many_that_keep_the_same_sandbox_at_once_do_no_harm(keeping: Keeping) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda seconds: keeping.keep(ONE, RUN, seconds), [60.0] * AT_ONCE))
    assert keeping.is_kept(ONE)


def test_what_is_over_is_forgotten_when_another_one_is_kept(keeping: Keeping, clock) -> None:
    keeping.keep(ONE, RUN, 60.0)
    clock.advance(61)
    keeping.keep(OTHER, RUN, 60.0)
    with keeping._reading() as connection:
        assert connection.execute(select(func.count()).select_from(s.kept_sandboxes)).scalar_one() == 1


def test_a_tenant_sees_the_owners_that_are_its_own(store: Store, keeping: Keeping) -> None:
    for run_id, tenant in (("run-a", "acme"), ("run-b", "default")):
        store.add(NewRun(run_id, "name", {}, tenant=tenant))
    lease = store.claim("run-a", "w")
    assert lease
    store.set_sandbox(lease, {"id": ONE})
    owner = Owner(ended=False, attempt=1, sandbox_id=ONE)
    assert keeping.owners(["run-a", "run-b", "run-z"], tenant="acme") == {"run-a": owner}
    assert set(keeping.owners(["run-a", "run-b", "run-z"])) == {"run-a", "run-b"}
    store.finish(lease, RunStatus.SUCCESS)
    assert keeping.owners(["run-a"], tenant="acme") == {"run-a": Owner(ended=True, attempt=1, sandbox_id=None)}
