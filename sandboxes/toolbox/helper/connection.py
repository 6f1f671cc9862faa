"""One client of the helper: its requests come in on a thread, replies go out from anywhere."""

import socket
import struct
import threading

from . import uploads, wire

SEND_SECONDS = 30
"""A client that takes nothing for so long is dropped."""
BACKLOG = 128 * 1024 * 1024
"""Bytes that may wait for one client."""


class Connection:
    """One client: a thread reads its requests, anybody may send it replies."""

    def __init__(self, sock, server):
        self._sock = sock
        self._server = server
        self._lock = threading.Lock()
        self._backlog = []
        self._waiting = 0
        self.uploads = uploads.Uploads()
        self.cancelled = set()
        self.open = True
        # Only sends time out: a client may be silent for as long as it likes.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))

    def serve(self):
        """Read requests until the client leaves or breaks the protocol."""
        receiver = wire.Receiver(self._sock)
        try:
            while True:
                frame = receiver.frame()
                if frame is None:
                    break
                self._server.request(self, *frame)
        except (OSError, wire.WireError):
            pass
        finally:
            self.close()

    def close(self):
        """Drop the client and what it left half done."""
        self.open = False
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._server.left(self)
        self.uploads.abandon()

    def reply(self, number, header, payload=b""):
        """Send a reply: at once when the socket takes it, else through a thread that waits for the client."""
        header["id"] = number
        parts = wire.encode(header, payload, wire.REPLY_CAP)
        with self._lock:
            if not self.open:
                return
            if not self._backlog:
                parts = self._send_now(parts)
            if not parts:
                return
            idle = not self._backlog
            self._backlog.extend(parts)
            self._waiting += sum(map(len, parts))
            if idle:
                threading.Thread(target=self._drain, daemon=True).start()
            if self._waiting > BACKLOG:
                self._sock.shutdown(socket.SHUT_RDWR)

    def _send_now(self, parts):
        try:
            sent = self._sock.sendmsg(parts, [], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.open = False
            return []
        rest = []
        for part in parts:
            if sent < len(part):
                rest.append(part[sent:])
            sent = max(0, sent - len(part))
        return rest

    def _drain(self):
        """Send the backlog. It ends in the same moment in which the backlog does: there is never a second one."""
        with self._lock:
            part = self._backlog[0]
        while True:
            try:
                self._sock.sendall(part)
            except OSError:
                self.open = False
                self._sock.shutdown(socket.SHUT_RDWR)
                return
            with self._lock:
                del self._backlog[0]
                self._waiting -= len(part)
                if not self._backlog:
                    return
                part = self._backlog[0]
