"""The resident server: connections, a pool of threads for file operations, and one loop for commands."""

import os
import queue
import selectors
import signal
import sys
import threading
import time

from . import files, text, wire
from .commands import Commands
from .connection import Connection
from .journal import Journal
from .operations import Operations

THREADS = 8
TICK = 1.0
"""Seconds between looks at the clock for lifetime and idleness."""


class Server:
    """Everything of one sandbox."""

    def __init__(self, listener, state, workdir, upper, lifetime, idle, unclaimed):
        os.makedirs(state, mode=0o700, exist_ok=True)
        self._listener = listener
        self._born = self._active = time.monotonic()
        self._lifetime, self._idle, self._unclaimed = lifetime, idle, unclaimed
        self._selector = selectors.DefaultSelector()
        journal = Journal(state)
        self._commands = Commands(state, journal, self._selector)
        about = {"boot": os.urandom(8).hex(), "python": "{}.{}.{}".format(*sys.version_info[:3])}
        self._operations = Operations(self._commands, journal, state, workdir, upper, about)
        self._jobs = queue.SimpleQueue()
        self._in_flight = 0
        self._stopping = False
        self._connections = set()

    def run(self, first=None):
        """Serve until the lifetime is over, the idle limit is reached or SIGTERM comes. Commands are killed then.

        `first` is the socket of a client that is there already. It is served when all threads are there: what it asks for may
        take every process that the sandbox can have.
        """
        signal.set_wakeup_fd(self._commands.wake_fd, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            # A handler, though we may have been started with these ignored: then commands would be too.
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._stop)
        for _ in range(THREADS):
            threading.Thread(target=self._work, daemon=True).start()
        if first is not None:
            self.welcome(first)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        while not self._stopping and not self._over():
            deadline = self._commands.next_deadline()
            self._commands.step(self._selector.select(TICK if deadline is None else min(TICK, deadline)))

    def _stop(self, *_):
        self._stopping = True

    def _over(self):
        now = time.monotonic()
        if self._unclaimed and now - self._born > self._unclaimed:
            return True
        if self._lifetime and now - self._born > self._lifetime:
            return True
        if not self._idle or now - self._active <= self._idle:
            return False
        if self._commands.busy() or self._in_flight:
            self._active = now
            return False
        return True

    def _accept(self, _mask):
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        self.welcome(sock)

    def welcome(self, sock):
        """Serve the client at the other end of a connected socket."""
        sock.setblocking(True)
        self._unclaimed = 0
        connection = Connection(sock, self)
        self._connections.add(connection)
        try:
            threading.Thread(target=connection.serve, daemon=True).start()
        except RuntimeError:  # no more threads: the sandbox is at its limit of processes
            sock.close()
            self._connections.discard(connection)

    def left(self, connection):
        """A connection is over."""
        self._connections.discard(connection)

    # -- requests

    def request(self, connection, header, payload):
        """Take one request from a connection's thread."""
        self._active = time.monotonic()
        op = header.get("op")
        if op == "cancel":
            connection.cancelled.add(header.get("call"))
            return
        if self._operations.short(op, header, payload):
            self._answer(connection, header, payload, op)
        else:
            self._jobs.put((connection, header, payload, op))

    def _work(self):
        while True:
            connection, header, payload, op = self._jobs.get()
            self._in_flight += 1
            try:
                self._answer(connection, header, payload, op)
            except wire.WireError as exc:
                connection.reply(header.get("id"), {"error": "too_large", "message": "Error: {}".format(exc)})
            finally:
                self._in_flight -= 1
                self._active = time.monotonic()

    def _answer(self, connection, header, payload, op):
        number = header.get("id")
        handler = getattr(self._operations, "op_" + str(op), None)
        try:
            if handler is None:
                raise text.Refused("unknown_op", "Error: the helper has no operation '{}'".format(op))
            answer = handler(connection, header, payload)
        except text.Refused as exc:
            connection.reply(number, {"error": exc.code, "message": exc.message})
        except OSError as exc:
            refused = files.refusal(exc, exc.filename or header.get("path") or "")
            connection.reply(number, {"error": refused.code, "message": refused.message})
        except RecursionError:
            connection.reply(number, {"error": "invalid_path", "message": "Error: {}: too many folders or links".format(op)})
        except (KeyError, TypeError, ValueError, MemoryError) as exc:
            connection.reply(number, {"error": "bad_request", "message": "Error: {}: {!r}".format(op, exc)})
        else:
            if answer is not None:
                connection.reply(number, {"ok": answer[0]}, answer[1])
