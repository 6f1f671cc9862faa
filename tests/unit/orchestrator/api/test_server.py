"""How the API listens."""

from __future__ import annotations

import socket

import pytest

from orchestrator.api.server import address_of, listen
from orchestrator.errors import BadInput


def test_answers_are_sent_at_once() -> None:
    """Nagle's algorithm, with the other side's late acknowledgements, would hold each of them back."""
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_where_it_listens_is_told_as_an_address() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        assert address_of(listening) == f"http://127.0.0.1:{port}"
        with pytest.raises(BadInput, match=f"cannot listen at 127.0.0.1:{port}"):
            listen("127.0.0.1", port)
