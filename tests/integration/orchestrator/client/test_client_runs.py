"""A run by the client, from a folder of this machine to what it left; each client the same."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import BadInput, Conflict, NotFound
from orchestrator.runs.models import AttemptStatus, RunStatus
from orchestrator.service import Service
from tests.served import Api

SCRIPT = """
turns:
  - tool_calls:
      - {name: write_file, args: {file_path: made.txt, content: made}}
  - text: It is made.
"""


def test_a_task_takes_its_folder_its_model_and_its_granted_secrets_along(client: Any, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "there.txt").write_text("it was there")
    (tmp_path / "script.yaml").write_text(SCRIPT)
    task = {
        "name": "all of it",
        "agent": {"prompt": "make it", "model": "scripted:script.yaml"},
        "inputs": {"path": "repo"},
        "outputs": {"files": ["*.txt"]},
        "verify": 'test "$INSIDE" = hush-hush && test "$(cat there.txt)" = "it was there"',
        "secrets": {"INSIDE": "${MINE}"},
    }

    run = client.runs.create(task, base_dir=tmp_path, granted=["MINE"], environ={"MINE": "hush-hush", "OTHER": "x"})
    ended = client.runs.join(run.id)

    assert (ended.status, ended.exit_code) == (RunStatus.SUCCESS, 0), ended.error
    assert {one.name for one in client.runs.artifacts(run.id)} >= {"files/made.txt", "files/there.txt", "patch.diff"}
    assert str(tmp_path) not in ended.model_dump_json()
    out = io.BytesIO()
    assert client.runs.download(run.id, "files/made.txt", out).size == 4
    assert out.getvalue() == b"made"


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"command": "make", "tiemout": 3}, "tiemout"),
        ({"command": "make", "inputs": {"path": "nowhere"}}, "nowhere"),
        ({"command": "make", "inputs": {"path": "../outside"}}, "without '..'"),
        ({"command": "make", "secrets": {"A": "${MINE}"}}, "--secret MINE"),
        ({"agent": {"prompt": "x", "model": "scripted:nowhere.yaml"}}, "nowhere.yaml"),
    ],
)
def test_what_is_wrong_with_a_task_is_found_here_and_nothing_is_sent(
    connect: Callable[..., Any], tmp_path: Path, task: dict[str, Any], said: str
) -> None:
    nobody = connect("http://127.0.0.1:1")

    with pytest.raises(BadInput, match=said):
        nobody.runs.create(task, base_dir=tmp_path, environ={"MINE": "x"})


def test_what_the_server_finds_wrong_is_said_as_it_says_it(client: Any) -> None:
    with pytest.raises(BadInput, match="labels"):
        client.runs.create({"command": "true"}, labels={"NOT A LABEL": "x"})


def test_the_same_key_and_order_are_the_same_run(client: Any) -> None:
    order = client.runs.prepare({"command": "true"})

    runs = {client.runs.submit(order, idempotency_key="nightly-7-" + str(id(client))).id for _ in range(3)}
    with pytest.raises(Conflict):
        client.runs.create({"command": "false"}, idempotency_key="nightly-7-" + str(id(client)))

    assert len(runs) == 1


def test_runs_are_listed_by_what_is_asked_for_page_after_page(client: Any) -> None:
    mark = f"m{id(client)}"
    began = datetime.now(UTC) - timedelta(seconds=5)
    made = [client.runs.create({"command": "true"}, labels={"mark": mark, "n": str(n)}, priority=n).id for n in range(5)]
    for run_id in made:
        client.runs.join(run_id)

    page = client.runs.list(labels={"mark": mark}, limit=2)
    rest = client.runs.list(labels={"mark": mark}, limit=10, cursor=page.next_cursor)
    every = [run.id for run in client.runs.iterate(labels={"mark": mark}, status=[RunStatus.SUCCESS], page_size=2)]

    assert [run.id for run in (*page.items, *rest.items)] == made[::-1] == every
    assert rest.next_cursor is None
    assert [run.priority for run in page.items] == [4, 3]
    assert [run.id for run in client.runs.iterate(labels={"mark": mark, "n": "3"})] == [made[3]]
    assert list(client.runs.iterate(labels={"mark": mark}, status=RunStatus.ERROR)) == []
    assert list(client.runs.iterate(labels={"mark": mark}, created_before=began)) == []
    assert len(list(client.runs.iterate(labels={"mark": mark}, created_after=began))) == 5


def test_a_run_is_followed_to_its_end(client: Any, service: Service) -> None:
    run = client.runs.create({"command": "for i in 1 2 3; do echo line $i; done; exit 3"})

    events = list(client.runs.follow(run.id))

    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (events[0].type, events[-1].type) == ("run.started", "run.finished")
    assert [(one.seq, one.type, one.at, one.data) for one in service.events(run.id)] == [
        (one.seq, one.type, one.at, one.data) for one in events
    ]
    assert [event.seq for event in client.runs.follow(run.id, after=3)] == [event.seq for event in events[3:]]
    page = client.runs.events(run.id, after=1, limit=2)
    assert ([event.seq for event in page.items], page.ended) == ([2, 3], False)
    assert client.runs.events(run.id, after=len(events)).ended


def test_a_long_poll_waits_for_what_comes(client: Any) -> None:
    run = client.runs.create({"command": "true"})

    after, ended = 0, False
    while not ended:
        page = client.runs.events(run.id, after=after, wait=30)
        after, ended = after + len(page.items), page.ended

    assert client.runs.get(run.id).status is RunStatus.SUCCESS


def test_a_run_tells_its_attempts_its_usage_and_its_log(client: Any, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    run = client.runs.create({"agent": {"prompt": "x", "model": "scripted:script.yaml"}, "retries": 1}, base_dir=tmp_path)
    client.runs.join(run.id)

    (attempt,) = client.runs.attempts(run.id)
    (usage,) = client.runs.usage(run.id)

    assert (attempt.attempt, attempt.status, attempt.provider) == (1, AttemptStatus.SUCCESS, "local")
    assert attempt.sandbox_seconds > 0
    assert (usage.attempt, usage.agent, usage.calls) == (1, "", 2)
    assert "It is made." in client.runs.log(run.id)


def test_a_run_is_cancelled_while_another_thread_follows_it(client: Any) -> None:
    run = client.runs.create({"command": "sleep 600"})
    events: list[str] = []
    following = threading.Thread(target=lambda: events.extend(event.type for event in client.runs.follow(run.id)))
    following.start()

    client.runs.cancel(run.id)
    ended = client.runs.join(run.id)
    following.join()

    assert ended.status is RunStatus.CANCELLED
    assert events[-1] == "run.finished"
    assert client.runs.cancel(run.id).status is RunStatus.CANCELLED


def test_a_run_that_goes_on_is_told_as_it_is_when_the_time_is_up(client: Any) -> None:
    run = client.runs.create({"command": "sleep 600"})

    joined = client.runs.join(run.id, timeout=0.3)
    with pytest.raises(Conflict, match="it can be run again when it has ended"):
        client.runs.retry(run.id)
    client.runs.cancel(run.id)

    assert not joined.status.terminal
    assert client.runs.join(run.id).status is RunStatus.CANCELLED


def test_a_person_decides_and_the_run_goes_on(client: Any, tmp_path: Path) -> None:
    script = "turns:\n- tool_calls: [{name: execute, args: {command: echo done > it}}]\n- text: It is done.\n"
    (tmp_path / "s.yaml").write_text(script)
    agent = {"prompt": "x", "model": "scripted:s.yaml", "interrupt_on": {"execute": True}}
    run = client.runs.create({"agent": agent, "verify": "test -e it"}, base_dir=tmp_path)
    following = client.runs.follow(run.id)
    asked = next(event for event in following if event.type == "run.interrupted")
    waiting = client.runs.get(run.id)

    decided = client.runs.decide(run.id, [{"type": "approve"}])
    rest = list(following)

    assert (waiting.status, len(waiting.interrupt["actions"])) == (RunStatus.INTERRUPTED, 1)
    assert waiting.decide_by > asked.at
    assert decided.status is not RunStatus.INTERRUPTED
    assert [rest[0].seq, rest[-1].type] == [asked.seq + 1, "run.finished"]
    assert client.runs.get(run.id).status is RunStatus.SUCCESS
    with pytest.raises(Conflict):
        client.runs.decide(run.id, [{"type": "approve"}])


def test_a_run_is_done_again_with_its_inputs_and_new_secrets(client: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("the inputs")
    task = {"command": 'cat file; test "$A" = "$(cat file)"', "inputs": {"path": "."}, "secrets": {"A": "${MINE}"}}
    first = client.runs.create(task, base_dir=tmp_path, granted=["MINE"], environ={"MINE": "wrong"})
    assert client.runs.join(first.id).status is RunStatus.ERROR

    again = client.runs.retry(first.id, secrets={"MINE": "the inputs"})

    assert again.id != first.id
    assert client.runs.join(again.id).status is RunStatus.SUCCESS
    with pytest.raises(BadInput, match="MINE"):
        client.runs.retry(first.id)


def test_what_is_not_there_is_said(client: Any) -> None:
    run = client.runs.create({"command": "true"})
    client.runs.join(run.id)

    assert client.runs.get(run.id.removeprefix("run-")[:10]).id == run.id
    with pytest.raises(NotFound, match="there is no run 'run-nowhere'"):
        client.runs.get("run-nowhere")
    with pytest.raises(NotFound, match="there is no run"):
        next(client.runs.follow("run-nowhere"))
    with pytest.raises(NotFound, match="no artifact 'nothing'"):
        client.runs.download(run.id, "nothing", io.BytesIO())
    with pytest.raises(BadInput, match="an id must not be empty"):
        client.runs.get("")
    with pytest.raises(BadInput):
        client.runs.list(cursor="nonsense")


def test_runs_that_ended_are_pruned(connect: Callable[..., Any], api: Api) -> None:
    tenant = f"prunes-{id(connect)}"
    api.service.tenants.set(tenant, api.service.tenants.get("default").limits)
    own = connect(api.url, api.new_key("admin", tenant=tenant))
    made = []
    for _ in range(3):
        run = own.runs.create({"command": "true"})
        own.runs.join(run.id)
        made.append(run.id)

    planned = own.runs.prune(keep=1, dry_run=True)
    pruned = own.runs.prune(keep=1)

    assert set(planned) == set(pruned) == set(made[:2])
    assert [run.id for run in own.runs.iterate()] == made[2:]
    with pytest.raises(BadInput, match="say which runs"):
        own.runs.prune()
