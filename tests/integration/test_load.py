"""The load generator, on the real API: what it counts is what was done, and what fails is told."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from infra.load.__main__ import BEFORE, main, put, rows
from infra.load.generator import MAX_BEHIND, Generator, Load, Measured, Overrun
from infra.load.operations import MIX, Failed
from orchestrator.broker import Broker
from orchestrator.runs.tenants import Limits
from orchestrator.service import Service
from orchestrator.settings import Settings
from tests.served import Api, serving
from tests.services import free_port


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """An API without a worker: what is submitted waits."""
    settings = Settings(home=tmp_path)
    try:
        with Service(settings) as service, serving(service) as served:
            yield served
    finally:
        Broker(settings).stop()


def test_each_operation_is_done_and_measured(api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.json"
    code = main(["--url", api.url, "--key", api.key, "--seconds", "1", "--concurrency", "4", "--json", str(out)])
    found = {one["what"]: one for one in json.loads(out.read_text())}
    assert code == 0
    assert set(found) == {*MIX, "all"}
    for one in found.values():
        assert one["ok"] > 0
        assert one["errors"] == {}
        assert 0 < one["p50_ms"] <= one["p99_ms"] <= one["max_ms"]
    assert found["all"]["ok"] == sum(found[name]["ok"] for name in MIX)
    assert len(api.service.list(limit=10_000)) == BEFORE + found["submit"]["ok"]
    assert "p99 ms" in capsys.readouterr().out


async def test_a_rate_is_kept(api: Api) -> None:
    done = await put(Load(1.0, {"read": 1}, rate=30), api.url, api.key)
    assert len(done.measured["read"].seconds) == 30
    assert done.taken >= 29 / 30


async def test_what_fails_is_counted_by_what_it_failed_with(api: Api) -> None:
    api.service.tenants.set("small", Limits(max_requests=BEFORE + 5))
    done = await put(Load(0.5, {"read": 1}, concurrency=2), api.url, api.new_key(tenant="small"))
    assert len(done.measured["read"].seconds) >= 5
    assert done.measured["read"].errors["429"] > 0
    assert rows(done)[-1]["errors"] == dict(done.measured["read"].errors)


def test_one_that_cannot_begin_says_why(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", api.url, "--key", api.new_key("runs:read"), "--seconds", "1"]) == 3
    assert capsys.readouterr().err == f"infra.load: {api.url}: 403\n"
    nowhere = f"http://127.0.0.1:{free_port()}"
    assert main(["--url", nowhere, "--key", "k", "--seconds", "1"]) == 3
    assert capsys.readouterr().err == f"infra.load: {nowhere}: ConnectError\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--mix", "submit=1,delete=2"], "'delete=2' is not NAME=NUMBER, where NAME is one of submit, read, list, stream"),
        (["--mix", "submit=0"], "nothing is to be done"),
        (["--seconds", "0"], "0 is not above 0"),
        (["--concurrency", "0"], "--concurrency is 1 or more"),
        (["--task", "/not/there.yaml"], "--task: [Errno 2] No such file or directory: '/not/there.yaml'"),
    ],
)
def test_an_option_that_makes_no_sense_is_told(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--key", "k", *options])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_a_key_is_needed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("FANFOLD_API_KEY", raising=False)
    with pytest.raises(SystemExit):
        main([])
    assert "there is no key: give --key" in capsys.readouterr().err


def always(operation: Callable[[], Awaitable[None]]) -> Callable[[str], Callable[[], Awaitable[None]]]:
    return lambda _name: operation


async def test_with_a_rate_what_comes_late_counts_from_when_it_was_due() -> None:
    """Ten operations are due within 0.1 s, and nothing moves for half a second: all but the last few took about as long."""
    first = True

    async def stalls_once() -> None:
        nonlocal first
        if first:
            first = False
            until = asyncio.get_running_loop().time() + 0.5
            while asyncio.get_running_loop().time() < until:
                pass

    generator = Generator(Load(0.1, {"read": 1}, rate=100), always(stalls_once))
    measured = await generator.run()
    assert len(measured["read"].seconds) == 10
    assert min(measured["read"].seconds) > 0.35


async def test_a_rate_that_cannot_be_kept_is_given_up() -> None:
    never = asyncio.Event()

    async def hangs() -> None:
        await never.wait()

    with pytest.raises(Overrun, match=f"{MAX_BEHIND + 1} requests wait"):
        await Generator(Load(10, {"read": 1}, rate=1e6), always(hangs)).run()
    assert all(task.cancelling() for task in asyncio.all_tasks() - {asyncio.current_task()})


async def test_so_many_at_once_are_so_many() -> None:
    now, most = 0, 0

    async def counted() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        raise Failed("no")

    measured = await Generator(Load(0.1, {"read": 1}, concurrency=5), always(counted)).run()
    assert most == 5
    assert measured["read"].errors["no"] >= 5
    assert measured["read"].seconds == []


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    hundred = Measured([float(number) for number in range(100, 0, -1)])
    assert (hundred.percentile(0.5), hundred.percentile(0.99), hundred.percentile(1)) == (50, 99, 100)
    assert math.isnan(Measured().percentile(0.5))
