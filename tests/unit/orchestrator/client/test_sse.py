"""Server-sent events from pieces that end anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.client import sse
from orchestrator.client.sse import Message, MessageReader
from orchestrator.errors import InfrastructureError

STREAM = (
    ": ping\r\n\r\n"
    'id: 1\r\nevent: log\r\ndata: {"é":\r\ndata: 1}\r\n\r\n'
    ":\n\n"
    "id:2\ndata:two\n\n"
    "event: none\n\n"
    "data: cut"
).encode()
MESSAGES = [Message('{"é":\n1}', "1", "log"), Message("two", "2")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=6).map(sorted))
def test_wherever_the_stream_is_cut_the_messages_are_the_same(cuts: list[int]) -> None:
    reader = MessageReader()
    ends = [*cuts, len(STREAM)]

    found = [one for begin, end in zip([0, *cuts], ends, strict=True) for one in reader.feed(STREAM[begin:end])]

    assert found == MESSAGES


def test_a_message_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_MESSAGE", 1000)
    reader = MessageReader()

    with pytest.raises(InfrastructureError, match="it was given up"):
        _feed_for_ever(reader)


def _feed_for_ever(reader: MessageReader) -> None:
    while True:
        list(reader.feed(b"data: xxxxxxxx\n"))
