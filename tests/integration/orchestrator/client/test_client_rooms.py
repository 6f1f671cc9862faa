"""The other groups of a client's methods: uploads, batches, threads, schedules, webhooks, sandboxes, keys, tenants."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.client.models import Limits
from orchestrator.client.orders import Order
from orchestrator.errors import BadInput, Conflict, NotFound
from orchestrator.runs.models import RunStatus
from tests.served import Api

Until = Callable[[Callable[[], object], str], None]


def test_bytes_and_files_are_uploaded(client: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")

    uploads = [client.uploads.create(b"content"), client.uploads.create(tmp_path / "file")]

    assert [(one.size, one.sha256) for one in uploads] == [(7, hashlib.sha256(b"content").hexdigest())] * 2


def test_a_batch_is_many_runs_of_one_upload(client: Any, tmp_path: Path) -> None:
    (tmp_path / "word").write_text("shared")
    order = client.runs.prepare({"command": "test $(cat word) = shared", "inputs": {"path": "."}}, base_dir=tmp_path)

    batch = client.batches.create([order, order, {"command": "exit 1"}], name="three")
    for run in client.runs.iterate(batch_id=batch.id):
        client.runs.join(run.id)
    done = client.batches.get(batch.id)

    assert (batch.name, batch.size, batch.errors) == ("three", 3, ())
    assert done.counts == {RunStatus.SUCCESS: 2, RunStatus.ERROR: 1}
    assert batch.id in [one.id for one in client.batches.iterate(page_size=1)]


def test_the_lines_that_are_wrong_are_named(client: Any) -> None:
    lines = [{"command": "true"}, Order({"nonsense": 1}), {"command": "true"}]

    with pytest.raises(BadInput, match="line 2: "):
        client.batches.create(lines)
    batch = client.batches.create(lines, mode="partial")

    assert (batch.size, [error.line for error in batch.errors]) == (2, [2])


def test_the_same_key_and_orders_are_the_same_batch_and_it_can_be_cancelled(client: Any) -> None:
    key = f"nightly-{id(client)}"
    orders = [{"command": "sleep 600", "name": f"run {number}"} for number in range(3)]

    batch = client.batches.create(orders, idempotency_key=key)
    again = client.batches.create(orders, idempotency_key=key)
    client.batches.cancel(batch.id)
    statuses = {client.runs.join(run.id).status for run in client.runs.iterate(batch_id=batch.id)}

    assert again.id == batch.id
    assert statuses == {RunStatus.CANCELLED}


def test_a_thread_is_made_described_and_deleted(client: Any) -> None:
    thread = client.threads.create({"ticket": 7})
    described = client.threads.describe(thread.id, {"ticket": 8})

    assert (thread.metadata, described.metadata) == ({"ticket": 7}, {"ticket": 8})
    assert client.threads.get(thread.id) == described
    assert thread.id in [one.id for one in client.threads.iterate(page_size=1)]
    assert client.threads.messages(thread.id) == ()
    client.threads.delete(thread.id)
    with pytest.raises(NotFound):
        client.threads.get(thread.id)


def test_a_thread_refuses_a_second_run_when_it_is_told_to(client: Any, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("turns:\n- tool_calls: [{name: execute, args: {command: sleep 600}}]\n- text: done\n")
    thread = client.threads.create()
    task = {"agent": {"prompt": "x", "model": "scripted:s.yaml"}}
    first = client.runs.create(task, base_dir=tmp_path, thread_id=thread.id)

    with pytest.raises(Conflict):
        client.runs.create(task, base_dir=tmp_path, thread_id=thread.id, multitask_strategy="reject")
    with pytest.raises(Conflict):
        client.threads.delete(thread.id)
    client.runs.cancel(first.id)

    assert client.runs.join(first.id).status is RunStatus.CANCELLED
    assert [run.id for run in client.runs.iterate(thread_id=thread.id)] == [first.id]


def test_a_schedule_is_made_changed_triggered_and_deleted(client: Any) -> None:
    schedule = client.schedules.create("nightly", {"command": "true"}, cron="30 2 * * *", timezone="Europe/Berlin")
    changed = client.schedules.change(schedule.id, cron="0 3 * * *", enabled=False)
    run = client.schedules.trigger(schedule.id)

    assert (schedule.enabled, schedule.overlap, schedule.next_at is None) == (True, "skip", False)
    assert (changed.cron, changed.enabled, changed.next_at) == ("0 3 * * *", False, None)
    assert client.runs.join(run.id).status is RunStatus.SUCCESS
    assert client.schedules.get(schedule.id).run["task"]["command"] == "true"
    assert schedule.id in [one.id for one in client.schedules.iterate(page_size=1)]
    client.schedules.delete(schedule.id)
    with pytest.raises(NotFound):
        client.schedules.get(schedule.id)
    with pytest.raises(BadInput):
        client.schedules.create("wrong", {"command": "true"}, cron="never")


def test_a_webhook_is_made_changed_tested_and_deleted(client: Any) -> None:
    webhook = client.webhooks.create("https://example.org/hook", events=["run.finished"], enabled=False)
    changed = client.webhooks.change(webhook.id, url="https://example.org/other")

    assert webhook.secret.startswith("whsec_")
    assert webhook.secret not in repr(webhook)
    assert (changed.url, changed.events, changed.enabled) == ("https://example.org/other", ("run.finished",), False)
    assert client.webhooks.get(webhook.id) == changed
    assert webhook.id in [one.id for one in client.webhooks.iterate(page_size=1)]
    assert client.webhooks.deliveries(webhook.id).items == ()
    client.webhooks.delete(webhook.id)
    with pytest.raises(NotFound):
        client.webhooks.get(webhook.id)


def test_a_runs_sandbox_is_listed_and_a_command_runs_in_it(client: Any, until: Until) -> None:
    run = client.runs.create({"command": "echo here > file; sleep 600"})

    def own() -> list[Any]:
        return [one for one in client.sandboxes.list().items if one.run_id == run.id]

    until(lambda: any(event.type == "command.started" for event in client.runs.events(run.id).items), "the command runs")
    (sandbox,) = own()
    done = client.sandboxes.exec(sandbox.id, "until test -e file; do :; done; cat file; echo err >&2; exit 3", timeout=20)

    assert (done.exit_code, done.stdout, done.stderr, done.timed_out) == (3, "here\n", "err\n", False)
    assert client.sandboxes.get(sandbox.id).state == "owned"
    assert client.sandboxes.keep(sandbox.id, 60).kept_until is not None
    with pytest.raises(Conflict):
        client.sandboxes.destroy(sandbox.id)
    client.runs.cancel(run.id)
    assert client.runs.join(run.id).status is RunStatus.CANCELLED
    if own():
        client.sandboxes.destroy(sandbox.id)
    assert own() == []


def test_a_key_is_made_used_and_revoked(client: Any, api: Api, connect: Callable[..., Any]) -> None:
    made = client.keys.create("ci", ["runs:read", "runs:write"], expires_in=3600)
    own = connect(api.url, made.key)

    assert (own.me().key_id, own.me().tenant, set(own.me().scopes)) == (made.id, "default", {"runs:read", "runs:write"})
    assert made.key not in repr(made)
    assert made.id in [key.id for key in client.keys.list()]
    client.keys.revoke(made.id)
    with pytest.raises(BadInput, match="revoked"):
        own.me()


def test_a_tenant_is_set_as_a_whole(client: Any) -> None:
    client.tenants.set("somebody", Limits(weight=2.0, max_queued=5))
    found = client.tenants.set("somebody", Limits(max_running=1))

    assert (found.weight, found.max_queued, found.max_running) == (1.0, None, 1)
    assert client.tenants.get("somebody") == found
    assert "somebody" in [tenant.id for tenant in client.tenants.list()]
    assert client.tenants.usage("somebody").runs == 0


def test_workers_are_told(client: Any) -> None:
    (worker,) = client.workers()

    assert worker.concurrency == 4
