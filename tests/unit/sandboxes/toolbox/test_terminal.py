"""The bridge over a terminal: frames however they are cut, a mark, any bytes, and never more than the window."""

import os
import pty
import socket
import threading
import tty

from hypothesis import given
from hypothesis import strategies as st

from sandboxes.toolbox.helper import terminal


def framed(pieces):
    return b"".join(terminal.word(len(piece)) + piece for piece in pieces)


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=5), st.lists(st.integers(1, 9), min_size=1, max_size=30))
def test_frames_are_taken_apart_however_they_come(pieces, cuts):
    frames, got = terminal.Frames(), b""
    data = framed(pieces) + terminal.word(terminal.ACKNOWLEDGED | 77) + terminal.word(0) + b"never read"
    while data:
        cut, cuts = cuts[0], cuts[1:] + cuts[:1]
        got += b"".join(frames.feed(data[:cut]))
        data = data[cut:]
    assert (got, frames.taken, frames.ended) == (b"".join(pieces), 77, True)


def bridged(work):
    """Run `work(master, helper)` against a bridge over a real terminal, in a process of its own."""
    ours, theirs = socket.socketpair()
    pid, master = pty.fork()
    if pid == 0:
        try:
            ours.close()
            terminal.bridge(theirs, b"MARK")
        finally:
            os._exit(0)
    theirs.close()
    try:
        return work(master, ours)
    finally:
        os.write(master, terminal.word(0))
        os.waitpid(pid, 0)
        os.close(master)
        ours.close()


def exactly(master, size):
    data = b""
    while len(data) < size:
        data += os.read(master, size - len(data))
    return data


def test_every_byte_goes_both_ways_as_it_is():
    every = bytes(range(256)) * 8

    def work(master, helper):
        assert exactly(master, 4) == b"MARK"
        os.write(master, framed([every]))
        assert helper.recv(len(every), socket.MSG_WAITALL) == every
        helper.sendall(every)
        return exactly(master, len(every))

    assert bridged(work) == every


def test_no_more_comes_than_was_acknowledged_for():
    def work(master, helper):
        assert exactly(master, 4) == b"MARK"
        tty.setraw(master)
        sending = threading.Thread(target=helper.sendall, args=(b"x" * (terminal.WINDOW + 1000),))
        sending.start()
        exactly(master, terminal.WINDOW)
        os.set_blocking(master, False)
        try:
            more = os.read(master, 1)
        except BlockingIOError:
            more = b""
        os.set_blocking(master, True)
        os.write(master, terminal.word(terminal.ACKNOWLEDGED | terminal.WINDOW))
        rest = exactly(master, 1000)
        sending.join()
        return more, len(rest)

    assert bridged(work) == (b"", 1000)
