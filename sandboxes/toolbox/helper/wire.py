"""The frame format, the same in both directions.

A frame is two big-endian 32-bit lengths, a header (a UTF-8 JSON object of the first length) and a payload (raw bytes of the
second). Names with any bytes travel in the header as Python's surrogate escapes.

A request has `id` (a number of the client's), `op` and the op's arguments; `key` makes a mutating call idempotent. Its reply
has the same `id`, and either `ok` (an object) or `error` (a code) with `message`. Replies come in any order. The client
speaks first, with op `hello`; `{"op": "cancel", "call": N}` gives up call N and has no reply of its own.
"""

import json
import struct

PROTOCOL = 1
HEADER_CAP = 64 * 1024 * 1024
"""Bytes of a header at most: room for a command or an edit of 16 MiB, escaped."""
REPLY_CAP = 8 * 1024 * 1024
"""Bytes of a reply's header at most: what a hostile helper can make its client parse."""
PAYLOAD_CAP = 16 * 1024 * 1024
"""Bytes of a payload at most. Longer contents travel in pieces."""
PIECE = 1024 * 1024
"""Bytes of a piece of a long content."""
RECEIVE = 128 * 1024
"""Bytes that are taken from a socket at once, where they are not a long payload."""

_LENGTHS = struct.Struct(">II")
PREFIX = _LENGTHS.size


class WireError(Exception):
    """The peer does not speak this protocol."""


def encode(header, payload=b"", cap=HEADER_CAP):
    """One frame as a list of byte strings to be sent one after the other."""
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    if len(text) > cap or len(payload) > PAYLOAD_CAP:
        raise WireError("a message of {} + {} bytes is longer than the protocol allows".format(len(text), len(payload)))
    prefix = _LENGTHS.pack(len(text), len(payload))
    return [prefix + text, payload] if payload else [prefix + text]


def lengths(prefix, cap=HEADER_CAP):
    """Header and payload lengths from the first `PREFIX` bytes of a frame, checked against the caps."""
    header, payload = _LENGTHS.unpack(prefix)
    if not 2 <= header <= cap or payload > PAYLOAD_CAP:
        raise WireError("announced a frame of {} + {} bytes".format(header, payload))
    return header, payload


def decode(text):
    """The header of a frame, which must be a JSON object."""
    try:
        header = json.loads(bytes(text).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as exc:
        raise WireError("sent a header that is not JSON: {}".format(exc)) from exc
    if not isinstance(header, dict):
        raise WireError("sent a header that is not a JSON object")
    return header


class Receiver:
    """Takes frames from a blocking socket: short ones together through one buffer, long payloads straight to their place."""

    def __init__(self, sock):
        self._sock = sock
        self._buffer = memoryview(bytearray(RECEIVE))
        self._start = self._end = 0
        self._piece = memoryview(bytearray(PIECE))

    def frame(self):
        """The next (header, payload), or None at the end.

        The payload of a `piece` lies in a buffer that the next call uses again; every other one is bytes.
        """
        prefix = self._take(PREFIX)
        if prefix is None:
            return None
        header, payload = lengths(prefix)
        described = decode(self._take(header) or b"")
        if payload > PIECE or described.get("op") != "piece":
            content = self._take(payload)
        else:
            content = self._fill(self._piece[:payload])
        if content is None:
            raise WireError("ended inside a frame")
        return described, content

    def _take(self, size):
        """`size` bytes; None at the end of the stream."""
        while self._end - self._start < size <= RECEIVE:
            if self._start + size > RECEIVE:
                rest = self._end - self._start
                self._buffer[:rest] = self._buffer[self._start : self._end]
                self._start, self._end = 0, rest
            count = self._sock.recv_into(self._buffer[self._end :])
            if not count:
                return None
            self._end += count
        if size > RECEIVE:
            filled = self._fill(memoryview(bytearray(size)))
            return None if filled is None else bytes(filled)
        self._start += size
        return bytes(self._buffer[self._start - size : self._start])

    def _fill(self, view):
        """`view`, filled with what comes; None when the stream ends before."""
        at = min(len(view), self._end - self._start)
        view[:at] = self._buffer[self._start : self._start + at]
        self._start += at
        while at < len(view):
            count = self._sock.recv_into(view[at:])
            if not count:
                return None
            at += count
        return view


class Decoder:
    """Cuts a stream of bytes into frames whose headers have at most `cap` bytes."""

    def __init__(self, cap=HEADER_CAP):
        self._buffer = bytearray()
        self._cap = cap

    def feed(self, data):
        """Take bytes; return the frames, as (header, payload), that are complete now."""
        self._buffer += data
        frames, at = [], 0
        view = memoryview(self._buffer)
        try:
            while len(view) - at >= PREFIX:
                header, payload = lengths(view[at : at + PREFIX], self._cap)
                end = at + PREFIX + header + payload
                if len(view) < end:
                    break
                middle = at + PREFIX + header
                frames.append((decode(view[at + PREFIX : middle]), bytes(view[middle:end])))
                at = end
        finally:
            view.release()
        if at:
            del self._buffer[:at]
        return frames
