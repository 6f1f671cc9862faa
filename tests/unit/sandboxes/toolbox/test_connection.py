"""Replies from many threads to a client that takes its time come whole, once each."""

import socket
import threading

import pytest

from sandboxes.toolbox.helper import wire
from sandboxes.toolbox.helper.connection import Connection

THREADS, REPLIES, PAYLOAD = 8, 400, 60_000


@pytest.mark.parametrize("under_way", [2, 3, 100])
def test_replies_that_have_to_wait_are_neither_lost_nor_repeated_nor_mixed(under_way):
    """A reply is larger than what the socket takes, so each leaves a backlog; with few under way it empties all the time."""
    ours, theirs = socket.socketpair()
    room = threading.Semaphore(under_way)
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        connection = Connection(ours, server=None)

        def answer(first):
            for number in range(first, first + REPLIES):
                room.acquire()
                connection.reply(number, {"ok": {}}, bytes([number % 256]) * PAYLOAD)

        threads = [threading.Thread(target=answer, args=(index * REPLIES,)) for index in range(THREADS)]
        for thread in threads:
            thread.start()
        decoder, got = wire.Decoder(), set()
        theirs.settimeout(60)
        while len(got) < THREADS * REPLIES:
            for header, payload in decoder.feed(theirs.recv(1_000_000)):
                assert header["id"] not in got
                assert payload == bytes([header["id"] % 256]) * PAYLOAD
                got.add(header["id"])
                room.release()
        for thread in threads:
            thread.join()
