"""A bridge over a terminal, for platforms where a terminal is the one stream that goes both ways.

The terminal is made raw, so that it carries any bytes, and a mark is written: what came before it was a shell's. From then
on bytes for the client go as they are, never more than `WINDOW` ahead of what it has acknowledged: such a platform drops
a client that lets too much come up. What comes from the client are frames: a big-endian 32-bit word, and with its highest bit
clear so many bytes for the helper; with it set, the rest is how many bytes the client has taken. An empty frame is the end.
"""

import os
import select
import struct
import termios
import time
import tty

WINDOW = 256 * 1024
"""Bytes that may be on their way to the client."""
ACKNOWLEDGED = 1 << 31
SILENCE = 120.0
"""Seconds without a word after which the client is taken for gone. It says something every `KEEPALIVE` seconds."""
KEEPALIVE = 30.0
_BULK = 64 * 1024
_WORD = struct.Struct(">I")


def word(number):
    """The head of a frame."""
    return _WORD.pack(number)


class Frames:
    """Takes apart what comes from the client."""

    def __init__(self):
        self._head = b""
        self._left = 0
        self.taken = 0
        """Bytes that the client has acknowledged, in all."""
        self.ended = False

    def feed(self, data):
        """The pieces for the helper in what has come."""
        pieces = []
        at = 0
        while at < len(data) and not self.ended:
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                at += len(piece)
                pieces.append(piece)
                continue
            part = data[at : at + _WORD.size - len(self._head)]
            at += len(part)
            self._head += part
            if len(self._head) == _WORD.size:
                self._begin(_WORD.unpack(self._head)[0])
                self._head = b""
        return pieces

    def _begin(self, number):
        if number & ACKNOWLEDGED:
            self.taken += number & ~ACKNOWLEDGED
        elif number:
            self._left = number
        else:
            self.ended = True


def bridge(sock, mark):
    """Carry bytes between the terminal on stdin and stdout and a connected socket, until either end is over."""
    tty.setraw(0, termios.TCSANOW)
    os.write(1, mark)
    frames = Frames()
    sent = 0
    heard = time.monotonic()
    while not frames.ended and time.monotonic() - heard < SILENCE:
        room = WINDOW - (sent - frames.taken)
        readable, _, _ = select.select([0, sock] if room > 0 else [0], [], [], KEEPALIVE)
        if 0 in readable:
            try:
                data = os.read(0, _BULK)
            except OSError:  # the terminal was hung up
                return
            if not data:
                return
            heard = time.monotonic()
            for piece in frames.feed(data):
                sock.sendall(piece)
        if sock in readable:
            data = sock.recv(min(room, _BULK))
            if not data:
                return
            sent += len(data)
            while data:
                data = data[os.write(1, data) :]
