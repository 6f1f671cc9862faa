"""The engine's framed streams, taken apart."""

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.errors import ProviderUnavailable
from sandboxes.providers.docker.engine import Engine
from sandboxes.providers.docker.stream import STDERR_CAP, Demultiplexer, adopt, pumped

frames = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=8)


def framed(pieces):
    return b"".join(bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for stream, data in pieces)


@given(frames, st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_frames_come_apart_however_they_are_cut(pieces, cuts):
    async def take_apart():
        reader = asyncio.StreamReader()
        demultiplexer = Demultiplexer(reader)
        data, at = framed(pieces), 0
        for cut in [*cuts, 10_000]:
            if data[at : at + cut]:
                demultiplexer.data_received(data[at : at + cut])
            at += cut
        reader.feed_eof()
        return await reader.read(), bytes(demultiplexer.stderr)

    out, err = asyncio.run(take_apart())
    assert out == b"".join(data for stream, data in pieces if stream == 1)
    assert err == b"".join(data for stream, data in pieces if stream == 2)


async def test_of_a_long_stderr_only_the_beginning_is_kept():
    demultiplexer = Demultiplexer(asyncio.StreamReader())
    for _ in range(20):
        demultiplexer.data_received(framed([(2, b"x" * 10_000)]))
    assert len(demultiplexer.stderr) == STDERR_CAP


async def test_bytes_that_came_early_are_not_lost():
    ours, theirs = socket.socketpair()
    with theirs:
        stream = await adopt("exec", ours, framed([(1, b"early ")])[:9])
        theirs.sendall(framed([(1, b"early ")])[9:] + framed([(1, b"late")]))
        async with asyncio.timeout(10):
            assert await stream.reader.readexactly(10) == b"early late"
        await stream.aclose()


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


async def test_a_stream_that_is_no_plain_socket_is_pumped_both_ways():
    near, far = socket.socketpair()
    far.settimeout(10)
    with far:
        stream = await adopt("exec", pumped(Talk(near)), b"")
        stream.writer.write(b"question")
        await stream.writer.drain()
        assert await asyncio.to_thread(far.recv, 8) == b"question"
        far.sendall(framed([(1, b"answer")]))
        async with asyncio.timeout(10):
            assert await stream.reader.readexactly(6) == b"answer"
            far.close()
            assert await stream.reader.read() == b""
        await stream.aclose()


async def test_an_engine_that_is_not_there_is_named_with_the_way_to_start_it(tmp_path):
    engine = Engine(f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(ProviderUnavailable, match=r"nobody\.sock .*dockerd.*DOCKER_HOST"):
        await engine.run("answer", lambda: engine.api)
    await engine.aclose()
