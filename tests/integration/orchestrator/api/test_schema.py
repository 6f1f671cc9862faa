"""The API keeps to its own description, whatever it is sent: no route fails, and no answer is another than it says.

Requests are made of the description: some fit it, some do not. Half of those that fit are about things that are there, with a
body that makes sense, so that each route also does what it is for.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from itertools import count
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.furnished import ORDER, furnished
from tests.served import Api

pytestmark = pytest.mark.timeout(300)  # thousands of requests

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 8
"""Requests of each operation that fit the description, and as many that do not."""
FEW = 2
"""The same for keys that open less."""
TIMEOUT = 30
"""Seconds for one answer."""
AGENT = {"agent": {"prompt": "Talk.", "model": "scripted:it"}}
Bodies = Mapping[str, Callable[[dict[str, str]], Any]]
SENSIBLE: Bodies = {
    "POST /v1/runs": lambda ids: {"task": AGENT, "uploads": {"model": ids["upload_id"]}, "thread_id": ids["thread_id"]},
    "POST /v1/runs/prune": lambda ids: {"keep": 0, "dry_run": True},
    "POST /v1/runs/{run_id}/decide": lambda ids: {"decisions": [{"type": "approve"}]},
    "POST /v1/batches": lambda ids: json.dumps(ORDER),
    "POST /v1/schedules": lambda ids: {"name": "x", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "run": ORDER},
    "PATCH /v1/schedules/{schedule_id}": lambda ids: {"enabled": False, "run": ORDER},
    "POST /v1/webhooks": lambda ids: {"url": "https://example.org/told"},
    "PATCH /v1/webhooks/{webhook_id}": lambda ids: {"enabled": True},
    "POST /v1/sandboxes/{sandbox_id}/exec": lambda ids: {"command": "echo told", "timeout": 5},
}
"""Bodies of requests about things that are there, where one that was made of the description alone is refused."""
NEVER_DONE = frozenset({"POST /v1/runs/{run_id}/decide"})
"""What cannot succeed here: no run asks anything."""


@schemathesis.serializer("application/x-ndjson")
def lines(context: Any, value: Any) -> bytes:
    return str(value).encode(errors="replace")


@pytest.fixture(scope="module")
def ids(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Things of the tenant `default`."""
    with furnished(api, "default", tmp_path_factory.mktemp("left")) as made:
        yield made


@pytest.fixture(scope="module")
def operations(api: Api) -> list[APIOperation]:
    """What the API can do. Keys are left out: they are given along, whatever else is wrong with a request."""
    document = requests.get(f"{api.url}/openapi.json", timeout=TIMEOUT).json()
    for path in document["paths"].values():
        for operation in path.values():
            operation.pop("security", None)
    return [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]


class Asking:
    """Sends requests with one key, and gathers what is wrong with the answers."""

    def __init__(self, api: Api, key: str | None, ids: dict[str, str]) -> None:
        self.answered: dict[str, set[int]] = defaultdict(set)
        """The statuses of the answers of each operation."""
        self.wrong: dict[tuple[str, int, str], str] = {}
        """By operation, status and check, what the first was."""
        self._api = api
        self._ids = ids
        self._session = requests.Session()
        self._session.headers.update({"Authorization": f"Bearer {key}"} if key else {})

    def all_of(self, operations: list[APIOperation], most: int) -> None:
        """Ask each of them `most` times with requests that fit the description, and with others that do not."""
        with self._session:
            for operation in operations:
                self._some(operation, GenerationMode.POSITIVE, most)
                if operation.body or any(operation.iter_parameters()):
                    self._some(operation, GenerationMode.NEGATIVE, most)

    def _some(self, operation: APIOperation, mode: GenerationMode, most: int) -> None:
        turns = count()

        @examples(
            max_examples=most,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Case) -> None:
            if mode is GenerationMode.POSITIVE and next(turns) % 2:
                self._make_sensible(case)
            self._send(case, [*CHECKS, negative_data_rejection] if mode is GenerationMode.NEGATIVE else CHECKS)

        ask()

    def _make_sensible(self, case: Case) -> None:
        """Make it about things that are there, as far as that leaves them there."""
        label = case.operation.label
        if case.method.upper() not in ("DELETE", "PUT"):
            case.path_parameters = {name: self._ids[name] for name in case.path_parameters or {}}
        if label in SENSIBLE:
            case.body = SENSIBLE[label](self._ids)
        if label in ("POST /v1/batches", "POST /v1/runs"):
            case.query, case.headers = {}, {}

    def _send(self, case: Case, checks: list[Any]) -> None:
        _shorten(case)
        answer = case.call(base_url=self._api.url, session=self._session, timeout=TIMEOUT)
        self.answered[case.operation.label].add(answer.status_code)
        for check in checks:
            if check is negative_data_rejection and answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                continue  # it does not know that this is a refusal
            try:
                case.validate_response(answer, checks=[check])
            except (FailureGroup, AssertionError) as exc:
                self.wrong.setdefault((case.operation.label, answer.status_code, check.__name__), str(exc))

    def explain(self) -> str:
        """What was wrong."""
        return "\n\n".join(f"{label} {status} {check}\n{text}" for (label, status, check), text in self.wrong.items())


def _shorten(case: Case) -> None:
    """No request waits for what does not come, and none takes away what the others are about."""
    if isinstance(case.query, dict):
        for name in {"wait", "timeout"} & case.query.keys():
            if isinstance(case.query[name], int | float):
                case.query[name] = 0
        if case.path.endswith("/join"):
            case.query.setdefault("timeout", 0)
    body = case.body if isinstance(case.body, dict) else {}
    if case.path.endswith("/exec") and isinstance(body.get("timeout"), int | float):
        body["timeout"] = min(body["timeout"], 5)
    if case.path.endswith("/prune") and body.get("dry_run", False) is False:
        body["dry_run"] = True


def test_the_operators_key_gets_what_the_description_says(
    api: Api, ids: dict[str, str], operations: list[APIOperation]
) -> None:
    asking = Asking(api, api.key, ids)
    asking.all_of(operations, EXAMPLES)
    assert not asking.wrong, asking.explain()
    never = {label for label, statuses in asking.answered.items() if min(statuses) >= HTTPStatus.BAD_REQUEST}
    assert {label for label in never - NEVER_DONE if not label.startswith("DELETE")} == set(), asking.answered


@pytest.mark.parametrize("scopes", [("runs:read", "runs:write", "sandboxes:exec", "admin"), ("runs:read",)])
def test_another_tenants_key_gets_what_the_description_says(
    api: Api, ids: dict[str, str], operations: list[APIOperation], scopes: tuple[str, ...]
) -> None:
    asking = Asking(api, api.new_key(*scopes, tenant="acme"), ids)
    asking.all_of(operations, FEW)
    assert not asking.wrong, asking.explain()


def test_nobody_gets_what_the_description_says(api: Api, ids: dict[str, str], operations: list[APIOperation]) -> None:
    asking = Asking(api, None, ids)
    asking.all_of(operations, FEW)
    assert not asking.wrong, asking.explain()
    answered = {label for label, statuses in asking.answered.items() if min(statuses) < HTTPStatus.BAD_REQUEST}
    assert answered == {"GET /healthz", "GET /readyz"}
