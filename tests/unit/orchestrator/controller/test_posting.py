"""Posting to receivers that nobody trusts."""

from __future__ import annotations

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from orchestrator.controller.posting import MAX_ANSWER, Answer, Poster
from tests.unit.orchestrator.controller.receiver import receiving, status

SHORT = 0.3
"""Seconds that a post waits where it waits in vain."""


def post(url: str, *, allow_private: bool = True, timeout: float = 10.0) -> Answer:
    return Poster(allow_private=allow_private, timeout=timeout).post(url, b'{"a":1}', {"Fanfold-Event": "x"})


def test_what_is_posted_arrives() -> None:
    with receiving() as receiver:
        assert post(f"{receiver.url}?a=b") == Answer(204, None)
        (came,) = receiver.received
    assert (came.path, came.body) == ("/hook?a=b", b'{"a":1}')
    assert (came.headers["Fanfold-Event"], came.headers["Host"]) == ("x", f"127.0.0.1:{receiver.port}")


@pytest.mark.parametrize("code", [302, 400, 410, 500, 503])
def test_any_answer_but_success_is_an_error(code: int) -> None:
    with receiving(status(code)) as receiver:
        answer = post(receiver.url)
    assert answer.status == code
    assert answer.error is not None
    assert f"it answered {code}" in answer.error


def test_nobody_there_is_an_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        answer = post(f"http://127.0.0.1:{free.getsockname()[1]}/")
    assert answer.status is None
    assert answer.error is not None
    assert answer.error.startswith("ConnectError")


def test_a_name_that_nobody_has_is_an_error() -> None:
    answer = post("http://nobody.invalid/")
    assert (answer.status, answer.error is not None) == (None, True)


def test_who_never_answers_is_left_in_time() -> None:
    release = threading.Event()
    with receiving(lambda *_: release.wait(30) and None) as receiver:
        answer = post(receiver.url, timeout=SHORT)
        release.set()
    assert answer == Answer(None, f"no answer within {SHORT:g} seconds")


def test_who_never_stops_answering_has_answered() -> None:
    sent = []

    def endless(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                sent.append(handler.wfile.write(b"x" * MAX_ANSWER))
        except OSError:
            handler.close_connection = True

    with receiving(endless) as receiver:
        assert post(receiver.url) == Answer(200, None)


def test_a_redirect_is_not_followed() -> None:
    with receiving() as private:

        def redirect(handler: BaseHTTPRequestHandler, _: int) -> None:
            handler.send_response(307)
            handler.send_header("Location", private.url)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        with receiving(redirect) as receiver:
            assert post(receiver.url) == Answer(307, "it answered 307, and redirects are not followed")
        assert private.received == []


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0x7f.0.0.1", "0"]
)
def test_the_own_machine_is_never_posted_to_unless_that_is_allowed(host: str) -> None:
    with receiving() as receiver:
        answer = post(f"https://{host}:{receiver.port}/", allow_private=False)
        assert answer.status is None
        assert answer.error is not None
        assert "public" in answer.error
        assert receiver.received == []


class Resolver:
    """Stands for the network's names: each question gets the next answer."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in self.answers.pop(0)]


def test_one_address_that_is_not_public_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(["8.8.8.8", "169.254.169.254"]))
    answer = post("https://hooks.test/", allow_private=False)
    assert answer == Answer(None, "hooks.test leads to an address that is not public, and nothing is sent to such ones")


def test_a_name_is_looked_up_once_and_the_connection_goes_to_what_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    rebinding = Resolver(["127.0.0.1"], ["127.0.0.2"])
    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    with receiving() as receiver:
        assert post(f"http://hooks.test:{receiver.port}/") == Answer(204, None)
        assert receiver.received[0].headers["Host"] == f"hooks.test:{receiver.port}"
    assert rebinding.asked == 1


def test_when_one_address_does_not_answer_the_next_one_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(["127.0.0.2", "127.0.0.1"]))
    with receiving() as receiver:
        assert post(f"http://hooks.test:{receiver.port}/") == Answer(204, None)


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as proxy, receiving() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert post(receiver.url).error is None
        assert proxy.received == []


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's context with a certificate for `hooks.test`, which this process trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.test")])
    moment = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(moment - timedelta(days=1))
        .not_valid_after(moment + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hooks.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "hooks.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


def test_the_certificate_has_to_be_the_names(certificate: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str | None] = []
    certificate.sni_callback = lambda _socket, name, _context: names.append(name)
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(["127.0.0.1"], ["127.0.0.1"]))
    with receiving(tls=certificate) as receiver:
        assert post(f"https://hooks.test:{receiver.port}/") == Answer(204, None)
        answer = post(f"https://others.test:{receiver.port}/")
        assert answer.status is None
        assert answer.error is not None
        assert "certificate" in answer.error.lower()
        assert len(receiver.received) == 1
    assert names == ["hooks.test", "others.test"]
