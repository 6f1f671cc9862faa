"""The engine's framed streams, taken apart."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.errors import ProviderUnavailable
from sandboxes.providers.docker.engine import Engine
from sandboxes.providers.docker.stream import STDERR_CAP, Demultiplexer, pumped

frames = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=8)


def framed(pieces):
    return b"".join(bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for stream, data in pieces)


@given(frames, st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_frames_come_apart_however_they_are_cut(pieces, cuts):
    demultiplexer, out = Demultiplexer(), bytearray()
    data, at = framed(pieces), 0
    for cut in [*cuts, 10_000]:
        for piece in demultiplexer.stdout(memoryview(data[at : at + cut])):
            out += piece
        at += cut
    assert out == b"".join(data for stream, data in pieces if stream == 1)
    said = b"".join(data for stream, data in pieces if stream == 2)
    assert demultiplexer.stderr == said.decode("utf-8", "replace")


def test_of_a_long_stderr_only_the_beginning_is_kept():
    demultiplexer = Demultiplexer()
    for _ in range(20):
        assert list(demultiplexer.stdout(memoryview(framed([(2, b"x" * 10_000)])))) == []
    assert len(demultiplexer.stderr) == STDERR_CAP


class Talk:
    """All that a TLS or SSH stream promises."""

    def __init__(self, sock):
        self._sock = sock

    def recv(self, size):
        return self._sock.recv(size)

    def sendall(self, data):
        self._sock.sendall(data)

    def close(self):
        self._sock.close()


def test_a_stream_that_is_no_plain_socket_is_pumped_both_ways():
    near, far = socket.socketpair()
    far.settimeout(10)
    with far, pumped(Talk(near)) as ours:
        ours.settimeout(10)
        ours.sendall(b"question")
        assert far.recv(8) == b"question"
        far.sendall(b"answer")
        assert ours.recv(6) == b"answer"
        far.close()
        assert ours.recv(1) == b""


async def test_an_engine_that_is_not_there_is_named_with_the_way_to_start_it(tmp_path):
    engine = Engine(f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(ProviderUnavailable, match=r"nobody\.sock .*dockerd.*DOCKER_HOST"):
        await engine.run("answer", lambda: engine.api)
    await engine.aclose()
