"""Large batches: how large, and how many at a time."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from urllib.parse import urlsplit

import httpx
import pytest

from orchestrator.api.app import BATCHES_AT_ONCE, BATCHES_OF_A_TENANT
from orchestrator.api.bodies import MAX_BATCH, MAX_BODY
from tests.furnished import ORDER
from tests.served import Api

PROBLEM = "application/problem+json"
PIECE = b" " * 1024**2
Until = Callable[[Callable[[], object], str], None]


@pytest.fixture
def sending(api: Api) -> Iterator[Callable[..., socket.socket]]:
    """`sending(tenant, size)`: begin to send a batch of so many bytes, and send none of them."""
    with ExitStack() as opened:

        def begin(tenant: str, size: int = MAX_BODY + 1) -> socket.socket:
            at = urlsplit(api.url)
            connection = opened.enter_context(socket.create_connection((at.hostname, at.port), timeout=30))
            key = api.new_key("runs:write", tenant=tenant)
            headers = [f"Authorization: Bearer {key}", f"Content-Length: {size}", "Host: x", "Expect: 100-continue", "", ""]
            connection.sendall("\r\n".join(["POST /v1/batches HTTP/1.1", *headers]).encode())
            return connection

        yield begin


def being_read(connection: socket.socket) -> socket.socket:
    """A batch that the server waits for by now."""
    assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
    return connection


def large(client: httpx.Client) -> httpx.Response:
    """What becomes of a batch whose size is not told; 422 is that it was read, and makes no sense."""
    return client.post("/v1/batches", content=iter([b"nonsense"]))


def test_a_batch_whose_size_is_told_to_be_too_large_is_not_read(sending: Callable[..., socket.socket]) -> None:
    with HTTPResponse(sending("acme", MAX_BATCH + 1)) as refused:
        refused.begin()
        answer = refused.read().decode()
    assert refused.status == 413
    assert f"{MAX_BATCH:,} bytes" in answer


def test_a_batch_that_turns_out_to_be_too_large_is_refused(client: httpx.Client) -> None:
    pieces = (PIECE for _ in range(MAX_BATCH // len(PIECE) + 1))
    answer = client.post("/v1/batches", content=pieces)
    assert (answer.status_code, answer.headers["content-type"]) == (413, PROBLEM)


def test_only_few_large_batches_are_taken_at_a_time(api: Api, sending: Callable[..., socket.socket], until: Until) -> None:
    acme, charlie = api.of("acme"), api.of("charlie")
    held = [being_read(sending("acme")) for _ in range(BATCHES_OF_A_TENANT)]
    refused = large(acme)
    assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
    assert acme.post("/v1/batches", content=json.dumps(ORDER)).status_code == 201, "a small one needs no turn"
    assert large(charlie).status_code == 422, "another tenant has its own share"

    held += [being_read(sending("bravo")) for _ in range(BATCHES_AT_ONCE - len(held))]
    refused = large(charlie)
    assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (503, True)
    assert refused.headers["content-type"] == PROBLEM

    for connection in held:
        connection.close()
    until(lambda: large(acme).status_code == 422, "those that broke off have left their turns")
