"""A tenant that has one of each thing that the API tells of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from orchestrator.runs.conversations import Conversations
from orchestrator.runs.family import Family
from orchestrator.runs.labels import sandbox_labels
from orchestrator.runs.models import Lease, ModelUsage, NewRun, RunStatus, WorkerInfo
from orchestrator.runs.store import Store, new_run_id, now
from orchestrator.service import Service
from sandboxes.portal import portal
from sandboxes.providers.base import SandboxHandle, SandboxSpec
from sandboxes.providers.registry import get_provider
from tests.served import Api

ORDER: Mapping[str, Any] = {"task": {"command": "true"}}
NDJSON = {"Content-Type": "application/x-ndjson"}
SAID = {"messages": [{"type": "human", "data": {"content": "the secret of the thread"}}]}
WORKER = "furnished"
NO_PROCESS = 2**22 + 1
"""The number of no process: numbers end before. Whoever stops workers must not find one."""


@contextmanager
def furnished(api: Api, tenant: str, folder: Path) -> Iterator[dict[str, str]]:
    """The ids of its things, by the names that addresses have for them, `upload_id` and `child_id`.

    The run has ended, had a child, left an artifact, talked in the thread, and its sandbox is kept; no worker is needed for
    that. It was submitted with the tenant's name as its `Idempotency-Key`, and has a label `whose` with that name.
    """
    service, client = api.service.of(tenant), api.of(tenant)
    store = Store(service._of.engine)
    store.worker_alive(WorkerInfo(WORKER, "nowhere", NO_PROCESS, 100, now(), now()))  # only then is a run sent to anybody
    ids = {"tenant_id": tenant, **_made(client, tenant)}
    lease = _claimed(store, ids["run_id"])
    child = NewRun(new_run_id(), "child", {"command": "true"})
    (begun,) = Family(service._of.engine).begin(lease, "1-task", [child], max_depth=1, max_runs=2)
    ids["child_id"] = begun.id
    ids["name"] = "left/behind.txt"
    content = folder / f"{tenant}.txt"
    content.write_text(f"what {tenant} left")
    store.add_artifact(lease, service._of.artifacts.keep_file(lease.run_id, ids["name"], content))
    Conversations(service._of.engine).save(lease, json.dumps(SAID).encode())
    with _sandbox(service, store, lease) as handle:
        ids["sandbox_id"] = handle.id
        _done(client, f"/v1/sandboxes/{handle.id}/keep", {"seconds": 3600})
        store.finish(lease, RunStatus.SUCCESS)
        yield ids


def _made(client: httpx.Client, tenant: str) -> dict[str, str]:
    """What a tenant makes by itself."""
    script = yaml.safe_dump({"turns": [{"text": "Done."}]})
    upload = client.post("/v1/uploads", content=script).json()["id"]
    thread = _done(client, "/v1/threads", {"metadata": {"about": "them"}})["id"]
    talk = {"task": {"agent": {"prompt": "Talk.", "model": "scripted:it"}}, "uploads": {"model": upload}, "thread_id": thread}
    webhook = _done(client, "/v1/webhooks", {"url": "https://example.org/told"})["id"]
    _done(client, f"/v1/webhooks/{webhook}/test")
    schedule = {"name": "yearly", "cron": "0 0 1 1 *", "run": ORDER}
    return {
        "upload_id": upload,
        "thread_id": thread,
        "run_id": _done(client, "/v1/runs", {**talk, "labels": {"whose": tenant}}, once=tenant)["id"],
        "batch_id": client.post("/v1/batches", content=json.dumps(ORDER), headers=NDJSON).json()["id"],
        "schedule_id": _done(client, "/v1/schedules", schedule)["id"],
        "webhook_id": webhook,
        "key_id": _done(client, "/v1/keys", {"name": "ci", "scopes": ["runs:read"]})["id"],
    }


def _done(client: httpx.Client, path: str, body: object = None, once: str | None = None) -> dict[str, Any]:
    answer = client.post(path, json=body, headers={"Idempotency-Key": once} if once else {})
    assert answer.is_success, answer.text
    return dict(answer.json())


def _claimed(store: Store, run_id: str) -> Lease:
    """The run as a worker has it that has begun, and spent something."""
    lease = store.claim(run_id, WORKER)
    assert lease
    used = {"calls": 1, "input_tokens": 10, "output_tokens": 1, "cache_read_tokens": 0, "cache_write_tokens": 0}
    store.add_usage(lease, 1, [ModelUsage(attempt=1, agent="", model="a:b", cost_micros=None, **used)])
    return lease


@contextmanager
def _sandbox(service: Service, store: Store, lease: Lease) -> Iterator[SandboxHandle]:
    provider = get_provider("local", home=service.settings.home)
    handle = portal.run(provider.create(SandboxSpec(), sandbox_labels(store.installation(), lease.run_id, 1)))
    try:
        store.set_sandbox(lease, handle.to_json())
        yield handle
    finally:
        portal.run(provider.destroy(handle))
        portal.run(provider.aclose())
