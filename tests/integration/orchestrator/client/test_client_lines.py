"""Connections that break, and servers that leave and come back: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio
import hashlib
import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_trace_id

from orchestrator.client import AsyncClient, Client
from orchestrator.errors import BadInput, InfrastructureError, NotFound
from orchestrator.runs.models import RunStatus
from orchestrator.service import Service
from tests.served import Api, serving

BIG = "seq 1 300000 > big.txt"
DIGEST = hashlib.sha256("".join(f"{n}\n" for n in range(1, 300001)).encode()).hexdigest()


@pytest.fixture
def far(line: Any, api: Api, connect: Callable[..., Any]) -> Any:
    """A client that reaches the server over the line, and has no connection yet."""
    return connect(line.url, api.key)


def test_what_is_followed_has_neither_gaps_nor_repeats_however_often_the_line_is_cut(
    client: Any, line: Any, far: Any, service: Service
) -> None:
    run = client.runs.create({"command": "for i in $(seq 30); do echo $i; sleep 0.02; done"})
    line.cuts += [0, 300, 700, 1500, 0, 2000]

    events = list(far.runs.follow(run.id))

    assert line.cuts == []
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.data for event in events] == [event.data for event in service.events(run.id)]


def test_who_follows_a_run_stays_with_it_over_a_restart_of_the_server(
    line: Any, connect: Callable[..., Any], service: Service
) -> None:
    with serving(service) as first:
        line.lead_to(first.url)
        far = connect(line.url, first.key)
        run = far.runs.create({"command": "echo begun; sleep 1.5; echo done"})
        following = far.runs.follow(run.id)
        seen = [next(following)]
    with serving(service) as second:
        line.lead_to(second.url)
        seen += following

    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].type == "run.finished"


def test_a_run_whose_answer_was_lost_is_not_made_twice(client: Any, line: Any, far: Any) -> None:
    mark = {"mark": f"lost-{id(far)}"}
    line.cuts += [0, 30]

    run = far.runs.create({"command": "true"}, labels=mark)

    assert line.connections == 3
    assert [one.id for one in client.runs.iterate(labels=mark)] == [run.id]


def test_what_is_gone_when_its_removal_has_to_be_asked_for_again_was_removed(client: Any, line: Any, far: Any) -> None:
    thread = client.threads.create()
    line.cuts += [0]

    far.threads.delete(thread.id)

    assert line.connections == 2
    for one in (client, far):
        with pytest.raises(NotFound):
            one.threads.delete(thread.id)


def test_who_stops_following_leaves_nothing_open(client: Any, far: Any) -> None:
    run = client.runs.create({"command": "sleep 600"})

    following = far.runs.follow(run.id)
    first = next(following)
    following.close()
    client.runs.cancel(run.id)

    assert first.type == "run.started"
    assert far.runs.join(run.id).status is RunStatus.CANCELLED


def test_a_trace_that_goes_on_here_goes_on_there(api: Api) -> None:
    with Client(api.url, api.key) as client, TracerProvider().get_tracer("test").start_as_current_span("ours") as ours:
        run = client.runs.create({"command": "true"})

    assert (api.service.get(run.id).traceparent or "").split("-")[1] == format_trace_id(ours.get_span_context().trace_id)


def test_an_upload_that_broke_off_is_sent_again_whole(line: Any, far: Any, tmp_path: Path) -> None:
    content = bytes(range(256)) * 20000
    (tmp_path / "file").write_bytes(content)
    line.cuts += [0, 10]

    upload = far.uploads.create(tmp_path / "file")

    assert (upload.size, upload.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_who_may_not_upload_is_told_so_and_not_that_the_line_broke(
    api: Api, connect: Callable[..., Any], tmp_path: Path
) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(64 * 1024**2)

    with pytest.raises(BadInput, match="runs:write"):
        connect(api.url, api.new_key("runs:read")).uploads.create(tmp_path / "large")


def test_hundreds_of_runs_are_followed_at_once_by_one_client(api: Api) -> None:
    async def all_of_them() -> list[str]:
        async with AsyncClient(api.url, api.key) as many:
            run = await many.runs.create({"command": "sleep 600"})
            followed = [many.runs.follow(run.id) for _ in range(150)]
            await asyncio.gather(*(anext(one) for one in followed))
            await many.runs.cancel(run.id)
            return [[event.type async for event in one][-1] for one in followed]

    assert set(asyncio.run(all_of_them())) == {"run.finished"}


def test_a_download_goes_on_where_it_broke_off(client: Any, line: Any, far: Any) -> None:
    run = client.runs.create({"command": BIG, "outputs": {"files": ["big.txt"]}})
    client.runs.join(run.id)
    line.cuts += [200_000, 0, 300_000, 100, 700_000]
    out = io.BytesIO()

    far.runs.download(run.id, "files/big.txt", out)

    assert line.cuts == []
    assert hashlib.sha256(out.getvalue()).hexdigest() == DIGEST


def test_content_that_is_not_what_the_run_left_is_an_error(client: Any, service: Service) -> None:
    run = client.runs.create({"command": "echo one > a.txt", "outputs": {"files": ["a.txt"]}})
    client.runs.join(run.id)
    (artifact,) = [one for one in service.artifacts(run.id) if one.name == "files/a.txt"]
    place = Path(service.artifact_place(artifact))
    content = place.read_bytes()
    place.write_bytes(b"two\n")

    try:
        with pytest.raises(InfrastructureError):
            client.runs.download(run.id, "files/a.txt", io.BytesIO())
    finally:
        place.write_bytes(content)


def test_a_client_may_be_used_by_many_threads(client: Any) -> None:
    made: list[str] = []

    def one() -> None:
        run = client.runs.create({"command": "true"})
        if client.runs.join(run.id).status is RunStatus.SUCCESS:
            made.append(run.id)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(made)) == 8


def test_a_server_that_is_not_there_is_an_infrastructure_error(connect: Callable[..., Any]) -> None:
    nobody = connect("http://127.0.0.1:1", "ffk_000000000000_secret")

    with pytest.raises(InfrastructureError, match=r"http://127\.0\.0\.1:1 cannot be reached") as caught:
        nobody.me()

    assert "secret" not in str(caught.value)
