"""What a server refuses, and servers that are none: which error, what it says, and whether it was asked again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from orchestrator.client import Client
from orchestrator.errors import BadInput, Conflict, InfrastructureError, NotFound, QuotaExceeded
from orchestrator.runs.tenants import Limits
from tests.served import Api

PROBLEM = "application/problem+json"
ME = b'{"tenant": "t", "key_id": "key-0", "scopes": ["runs:read"], "new": "of a newer server"}'


@dataclass(frozen=True)
class Said:
    """One answer."""

    status: int
    body: bytes = b'{"title": "no", "status": 0, "detail": "not now"}'
    kind: str = PROBLEM
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class Scripted:
    """A server that gives the answers it was told to, one after the other, and then the last one again."""

    url: str
    answers: list[Said] = field(default_factory=list)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and Authorization of each request."""


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    servers: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def make(*answers: Said) -> Scripted:
        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                made.asked.append((self.command, self.path, self.headers.get("Authorization")))
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                said = made.answers.pop(0) if len(made.answers) > 1 else made.answers[0]
                self.send_response(said.status)
                for name, value in (("Content-Type", said.kind), ("Content-Length", str(len(said.body))), *said.headers):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(said.body)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        made = Scripted(f"http://127.0.0.1:{server.server_port}", list(answers))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        servers.append((server, thread))
        return made

    yield make
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


FINE = Said(200, ME, "application/json")
SOON = (("Retry-After", "0"),)


# Of a real server


def test_a_key_that_opens_nothing_is_named_and_not_told(api: Api, connect: Callable[..., Any]) -> None:
    key = "ffk_0123456789ab_" + "s" * 43

    with pytest.raises(BadInput, match=r"ffk_0123456789ab_\.\.\. at http://.*FANFOLD_API_KEY") as caught:
        connect(api.url, key).me()
    with pytest.raises(BadInput, match="no key was given"):
        connect(api.url).me()

    assert "sss" not in str(caught.value) + repr(connect(api.url, key))


def test_a_scope_that_lacks_is_named(api: Api, connect: Callable[..., Any]) -> None:
    reader = connect(api.url, api.new_key("runs:read"))

    assert reader.me().scopes == ("runs:read",)
    with pytest.raises(BadInput, match="scope 'runs:write'"):
        reader.runs.create({"command": "true"})


def test_who_asks_too_often_is_told_when_to_ask_again(api: Api, connect: Callable[..., Any]) -> None:
    tenant = f"slow-{id(connect)}"
    api.service.tenants.set(tenant, Limits(max_requests=1))
    client = connect(api.url, api.new_key(tenant=tenant))
    client.me()

    with pytest.raises(QuotaExceeded) as caught:
        client.me()

    assert caught.value.retry_after > 30


def test_another_tenants_run_is_not_there(api: Api, connect: Callable[..., Any], client: Any) -> None:
    api.service.tenants.set("strangers", Limits())
    stranger = connect(api.url, api.new_key(tenant="strangers"))
    run = client.runs.create({"command": "true"})

    for ask in (stranger.runs.get, stranger.runs.cancel, stranger.runs.artifacts, stranger.runs.log, stranger.runs.attempts):
        with pytest.raises(NotFound):
            ask(run.id)


# Of any other


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, BadInput), (401, BadInput), (403, BadInput), (404, NotFound), (409, Conflict), (413, BadInput), (422, BadInput)],
)
def test_a_refusal_is_the_error_that_the_same_mistake_is_here(
    scripted: Callable[..., Scripted], connect: Callable[..., Any], status: int, error: type[Exception]
) -> None:
    server = scripted(Said(status))

    with pytest.raises(error, match="not now"):
        connect(server.url).me()

    assert len(server.asked) == 1


def test_every_fault_of_a_request_is_told(scripted: Callable[..., Scripted], connect: Callable[..., Any]) -> None:
    body = b'{"detail": "the request is not valid", "errors": [{"loc": "body.a", "msg": "one"}, {"loc": "b", "msg": "two"}]}'

    with pytest.raises(BadInput) as caught:
        connect(scripted(Said(422, body)).url).me()

    assert str(caught.value) == "body.a: one\nb: two"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_server_that_is_not_there_for_a_moment_is_asked_again(
    scripted: Callable[..., Scripted], connect: Callable[..., Any], status: int
) -> None:
    server = scripted(Said(status, headers=SOON), Said(status, b"<html>", "text/html", SOON), FINE)

    if status == 429:
        server.answers.pop(1)

    assert connect(server.url).me().tenant == "t"
    assert len(server.asked) >= 2


def test_what_might_be_done_twice_is_not_asked_again(scripted: Callable[..., Scripted], connect: Callable[..., Any]) -> None:
    server = scripted(Said(503, headers=SOON), FINE)

    with pytest.raises(InfrastructureError, match="not now"):
        connect(server.url).runs.decide("run-1", [{"type": "approve"}])

    assert len(server.asked) == 1


def test_a_server_that_fails_again_and_again_is_given_up(
    scripted: Callable[..., Scripted], connect: Callable[..., Any]
) -> None:
    server = scripted(Said(503, headers=SOON))

    with pytest.raises(InfrastructureError, match="not now"):
        connect(server.url).me()

    assert len(server.asked) == 5


def test_who_has_to_wait_for_long_is_told_at_once(scripted: Callable[..., Scripted], connect: Callable[..., Any]) -> None:
    server = scripted(Said(429, headers=(("Retry-After", "3600"),)))

    with pytest.raises(QuotaExceeded, match="not now") as caught:
        connect(server.url).me()

    assert (caught.value.retry_after, len(server.asked)) == (3600.0, 1)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (Said(200, b"<html>", "text/html"), "does not answer as this version's API does"),
        (Said(200, b'{"tenant": 1}', "application/json"), "client and server are of one version"),
        (Said(404, b"nothing here", "text/plain"), r"does not answer as a Fanfold API does \(GET /v1/me: 404"),
        (Said(500, b"oh", "text/plain"), "does not serve at the moment"),
        (Said(422, b"[", PROBLEM), "does not answer as a Fanfold API does"),
    ],
)
def test_another_kind_of_server_is_told(
    scripted: Callable[..., Scripted], connect: Callable[..., Any], said: Said, message: str
) -> None:
    with pytest.raises(InfrastructureError, match=message):
        connect(scripted(said).url).me()


def test_a_key_goes_to_no_other_address(scripted: Callable[..., Scripted], connect: Callable[..., Any]) -> None:
    other = scripted(FINE)
    server = scripted(Said(307, b"", "text/plain", (("Location", f"{other.url}/v1/me"),)))

    with pytest.raises(InfrastructureError, match="sends on to http://127"):
        connect(server.url, "ffk_000000000000_x").me()

    assert server.asked == [("GET", "/v1/me", "Bearer ffk_000000000000_x")]
    assert other.asked == []


def test_an_address_may_have_a_path_before_the_apis(scripted: Callable[..., Scripted], connect: Callable[..., Any]) -> None:
    server = scripted(FINE)

    connect(f"{server.url}/fanfold/").me()

    assert [path for _, path, _ in server.asked] == ["/fanfold/v1/me"]


@pytest.mark.parametrize(
    "url", ["", "host:80", "ftp://host", "http://", "http://user:pass@host", "https://host/?a=b", "http://host:port", "http://[x"]
)
def test_an_address_that_is_none_is_refused_without_telling_it(url: str) -> None:
    with pytest.raises(BadInput, match="FANFOLD_URL") as caught:
        Client(url)

    assert "pass@" not in str(caught.value)


def test_a_key_that_cannot_be_one_is_refused_without_telling_it() -> None:
    with pytest.raises(BadInput, match="FANFOLD_API_KEY") as caught:
        Client("http://127.0.0.1:1", "secret\nkey")

    assert "secret" not in str(caught.value)
