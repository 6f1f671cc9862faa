import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.toolbox.helper import wire

HEADERS = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=5)


@given(st.lists(st.tuples(HEADERS, st.binary(max_size=100))), st.integers(1, 50))
def test_frames_survive_any_cut_of_the_stream(frames, step):
    stream = b"".join(b"".join(wire.encode(header, payload)) for header, payload in frames)
    decoder, got = wire.Decoder(), []
    for at in range(0, len(stream), step):
        got += decoder.feed(stream[at : at + step])
    assert got == frames


def test_names_with_any_bytes_travel():
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    (header, _payload), = wire.Decoder().feed(b"".join(wire.encode({"path": name})))
    assert header["path"] == name


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 8,
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"\0\0\0\2\0\0\0\0[]",
        b"\0\0\0\2\0\0\0\0\xff\xff",
        (60_000).to_bytes(4, "big") + b"\0\0\0\0" + b'{"a":' + b"[" * 59_995,
    ],
)
def test_what_is_not_the_protocol_is_refused(data):
    with pytest.raises(wire.WireError):
        wire.Decoder().feed(data)


def test_an_announced_frame_over_the_cap_is_refused_before_it_comes():
    with pytest.raises(wire.WireError):
        wire.Decoder(cap=100).feed((101).to_bytes(4, "big") + b"\0\0\0\0")


def test_a_message_over_the_cap_is_not_sent():
    with pytest.raises(wire.WireError):
        wire.encode({"a": "x" * 100}, cap=50)


def received(data, cuts=()):
    """What a receiver makes of a stream that comes in these cuts, its payloads copied."""
    ours, theirs = socket.socketpair()

    def send():
        with theirs:
            at = 0
            for cut in [*cuts, len(data)]:
                theirs.sendall(data[at : at + cut])
                at += cut

    sender = threading.Thread(target=send)
    sender.start()
    frames = []
    with ours:
        receiver = wire.Receiver(ours)
        while (frame := receiver.frame()) is not None:
            frames.append((frame[0], bytes(frame[1])))
    sender.join()
    return frames


LONG = [
    ({"op": "piece", "token": "a"}, b"a" * wire.PIECE),
    ({"op": "put"}, b"b" * (wire.RECEIVE - 5)),
    ({"op": "put"}, b"c" * (wire.RECEIVE + 5)),
    ({"op": "edit", "old": "d" * (2 * wire.RECEIVE)}, b""),
    ({"op": "piece", "token": "a"}, b"e" * 70_000),
    ({"op": "puts"}, b"f" * (3 * wire.PIECE)),
    ({"op": "piece"}, b"g" * (2 * wire.PIECE)),
    ({"op": "hello"}, b""),
]


@given(st.lists(st.sampled_from(LONG), max_size=4), st.lists(st.integers(1, 300_000), max_size=4))
@settings(max_examples=40, deadline=None)
def test_a_receiver_takes_frames_of_any_length_in_any_cut(frames, cuts):
    assert received(b"".join(b"".join(wire.encode(*frame)) for frame in frames), cuts) == frames


@pytest.mark.parametrize("left", [9, 30, 40])
def test_a_stream_that_ends_inside_a_frame_is_refused(left):
    with pytest.raises(wire.WireError):
        received(b"".join(wire.encode({"op": "piece", "token": "a"}, b"x" * 10))[:left])
