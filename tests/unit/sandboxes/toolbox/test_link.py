"""A socket on an event loop."""

import asyncio
import socket

import pytest

from sandboxes.toolbox.link import HIGH_WATER, SEND_BUFFER, Link

LONG = 4 * (SEND_BUFFER + HIGH_WATER)
GRACE = 10.0
"""Seconds after which it has hung."""


class Ends:
    """A link, what came over it, and the other end of its socket."""

    def __init__(self, early=b""):
        ours, self.far = socket.socketpair()
        self.far.setblocking(False)
        self.came, self.ends = bytearray(), asyncio.Queue()
        self.link = Link(ours, self.came.extend, self.ends.put_nowait, early=early)

    async def far_reads(self, size):
        got = bytearray()
        loop = asyncio.get_running_loop()
        while len(got) < size and (piece := await loop.sock_recv(self.far, 1 << 20)):
            got += piece
        return bytes(got)


@pytest.fixture
async def ends():
    made = Ends()
    async with asyncio.timeout(GRACE):
        yield made
    made.link.close()
    made.far.close()


async def test_what_is_sent_arrives_whole_and_in_order(ends):
    parts = [bytes([number]) * (LONG // 4) for number in range(4)]
    for part in parts:
        ends.link.send([b"<", part, b">"])
    assert await ends.far_reads(LONG + 8) == b"".join(b"<" + part + b">" for part in parts)


async def test_drain_waits_until_the_peer_has_taken_most(ends):
    ends.link.send([b"x" * LONG])
    draining = asyncio.create_task(ends.link.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    await ends.far_reads(LONG)
    await draining


async def test_many_small_parts_go_out_together(ends):
    ends.link.send([b"x" * LONG])
    for _ in range(1000):
        ends.link.send([b"a", b"", b"b"])
    assert (await ends.far_reads(LONG + 2000))[LONG:] == b"ab" * 1000


async def test_the_end_comes_after_all_that_was_sent(ends):
    ends.link.send([b"x" * LONG])
    ends.link.finish()
    assert len(await ends.far_reads(LONG + 1)) == LONG


async def test_what_comes_is_handed_over_and_then_the_end():
    ends = Ends(early=b"early ")
    await asyncio.get_running_loop().sock_sendall(ends.far, b"late")
    ends.far.close()
    async with asyncio.timeout(GRACE):
        assert await ends.ends.get() is None
    assert bytes(ends.came) == b"early late"


async def test_a_peer_that_is_gone_fails_senders_and_those_who_wait(ends):
    ends.link.send([b"x" * LONG])
    draining = asyncio.create_task(ends.link.drain())
    await asyncio.sleep(0)
    ends.far.close()
    with pytest.raises(OSError, match=r"closed|reset|[Bb]roken"):
        await draining
    await ends.ends.get()
    with pytest.raises(OSError, match="closed"):
        ends.link.send([b"more"])


async def test_a_closed_link_says_nothing_more(ends):
    ends.link.close()
    ends.link.close()
    with pytest.raises(OSError, match="closed"):
        ends.link.send([b"x"])
    assert ends.ends.empty()
