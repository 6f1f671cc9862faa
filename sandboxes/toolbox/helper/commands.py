"""Commands: started, fed, watched, killed and remembered by id.

All state changes happen on the main thread's loop (`Commands.step`); other threads hand it closures. A command has ended when
its own process has: background children that still hold its output neither delay the answer nor lose theirs.
"""

import collections
import errno
import fcntl
import os
import selectors
import threading
import time

from . import processes, text
from .spool import Spool

CHUNK = 256 * 1024
PIPE_SIZE = 1024 * 1024
"""Bytes that a command may print ahead of us, where the kernel allows."""
FINISHED = 1000
"""Ended commands whose output is kept."""
SPOOLED = 1024 * 1024 * 1024
"""Bytes of output of ended commands that are kept."""
TIMED_OUT = 124


class Command:
    """One command, running or ended."""

    def __init__(self, key, folder, process, timeout):
        name = os.path.join(folder, "out-" + _name(key))
        self.key = key
        self.cookie = _name(key)
        self.process = process
        self.out = Spool(name + ".out")
        self.err = Spool(name + ".err")
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.timed_out = False
        self.result = None
        self.waiters = []
        self.stdin = collections.deque()
        self.stdin_taken = 0


def _name(key):
    import hashlib

    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:24]


class Commands:
    """All commands of this sandbox."""

    def __init__(self, folder, journal, selector):
        self.folder = folder
        self._journal = journal
        self._selector = selector
        self._known = {}
        # The loop's own: other threads only look a command up in `_known`, or add one.
        self._running = {}
        self._finished = collections.deque()
        self._spooled = 0
        self._handed = collections.deque()
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        selector.register(self._wake_read, selectors.EVENT_READ, self._drain_wake)

    @property
    def wake_fd(self):
        """Where signals (and other threads) write to wake the loop."""
        return self._wake_write

    def call_soon(self, action):
        """Have the loop call `action`."""
        self._handed.append(action)
        self.wake()

    def wake(self):
        """Have the loop turn once."""
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            pass

    def _drain_wake(self, _events):
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            pass

    # -- called from any thread

    def start(self, key, command, cwd, env, timeout, stdin, merge, then):
        """Start a command unless `key` is known, then call `then(command)` on the loop."""
        known = self._known.get(key)
        if known is None:
            recorded = self._journal.begin("exec:" + key)
            if recorded is not None and key not in self._known:
                self.call_soon(lambda: then(self._remembered(key, recorded)))
                return
            known = self._known.get(key) or self._start(key, command, cwd, env, timeout, stdin, merge)
        self.call_soon(lambda: then(known))

    def _start(self, key, command, cwd, env, timeout, stdin, merge):
        process, failure = None, None
        try:
            process = processes.start(command, cwd, env, _name(key), stdin, merge, self.folder)
        except (OSError, ValueError, text.Refused) as exc:
            failure = exc
        started = Command(key, self.folder, process, timeout)
        self._known[key] = started
        if failure is not None:
            self.call_soon(lambda: self._failed(started, failure, cwd))
        else:
            self.call_soon(lambda: self._watch(started))
        self._journal.finish("exec:" + key, {"started": True})
        return started

    def get(self, key):
        """A command that was started under `key`, or None."""
        known = self._known.get(key)
        if known is not None:
            return known
        recorded = self._journal.known("result:" + key) or self._journal.known("exec:" + key)
        return None if recorded is None else self._remembered(key, recorded)

    def _remembered(self, key, recorded):
        """A command of which only the journal knows: of an earlier helper, or so old that its output went."""
        known = Command(key, self.folder, None, None)
        result = self._journal.known("result:" + key)
        if result is None:
            lost = {"error": "call_lost", "message": "Error: the sandbox's helper died while this command ran"}
            known.result = recorded if "error" in recorded else lost
        else:
            known.result = dict(result, out=0, err=0, lost=result["lost"] + result["out"] + result["err"])
        return known

    def busy(self):
        """Whether any command runs."""
        return bool(self._running or self._handed)

    # -- on the loop

    def step(self, events):
        """Handle what the selector reported, what other threads handed over, children that ended and deadlines."""
        for key, mask in events:
            key.data(mask)
        while self._handed:
            self._handed.popleft()()
        now = time.monotonic()
        for command in list(self._running.values()):
            if command.process.poll() is not None:
                self._ended(command)
            elif command.deadline is not None and now >= command.deadline:
                command.deadline = None
                command.timed_out = True
                self.kill(command)

    def next_deadline(self):
        """Seconds until a command times out; None when none will."""
        deadlines = [one.deadline for one in self._running.values() if one.deadline is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _watch(self, command):
        self._running[command.key] = command
        pairs = [(command.process.stdout, command.out), (command.process.stderr, command.err)]
        for pipe, spool in pairs:
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                _widen(pipe)
                self._selector.register(pipe, selectors.EVENT_READ, lambda _m, p=pipe, s=spool: self._pump(command, p, s))
        if command.process.stdin is not None:
            os.set_blocking(command.process.stdin.fileno(), False)

    def _pump(self, command, pipe, spool):
        """Move what is there from a pipe to its spool; returns whether there may be more."""
        try:
            data = os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(pipe)
            pipe.close()
            return False
        before = spool.kept
        spool.append(data)
        if command.result is not None and command.key in self._known:  # from a background child
            self._spooled += spool.kept - before
        self._notify(command)
        return True

    def _ended(self, command):
        for pipe, spool in ((command.process.stdout, command.out), (command.process.stderr, command.err)):
            passes = 0
            while pipe is not None and not pipe.closed and passes < 64 and self._pump(command, pipe, spool):
                passes += 1
        code = command.process.returncode
        code = TIMED_OUT if command.timed_out else code if code >= 0 else 128 - code
        self._finish(command, code)

    def _failed(self, command, failure, cwd):
        code = 126
        message = str(failure)
        if isinstance(failure, OSError):
            missing = failure.errno == errno.ENOENT
            in_folder = missing and not os.path.isdir(cwd)
            code = 127 if missing and not in_folder else 126
            what = "working directory '{}'".format(cwd) if in_folder else failure.filename or "the command"
            message = "cannot start {}: {}".format(what, failure.strerror)
        command.out.append((message + "\n").encode("utf-8", "replace"))
        self._finish(command, code)

    def _finish(self, command, code):
        command.result = {
            "exit_code": code,
            "timed_out": command.timed_out,
            "out": command.out.kept,
            "err": command.err.kept,
            "lost": command.out.lost + command.err.lost,
        }
        self._running.pop(command.key, None)
        self._finished.append(command)
        self._spooled += command.out.kept + command.err.kept
        self._close_stdin(command)
        try:
            self._journal.finish("result:" + command.key, command.result)
        except text.Refused:
            pass  # the disk is full: this helper still remembers
        self._notify(command)
        self._forget_old()

    def _notify(self, command):
        waiters, command.waiters = command.waiters, []
        command.waiters = [again for again in waiters if not again(command)] + command.waiters

    def wait(self, command, waiter):
        """Call `waiter(command)` at every change until it returns True."""
        if not waiter(command):
            command.waiters.append(waiter)

    def kill(self, command):
        """Kill a command's whole tree, in a thread of its own: looking through /proc takes a while."""
        if command.process is None or command.result is not None:
            return
        try:
            threading.Thread(target=self._kill, args=(command,), daemon=True).start()
        except RuntimeError:  # no more threads: the sandbox is at its limit of processes
            self._kill(command)

    def _kill(self, command):
        processes.kill_tree(command.process.pid, command.cookie)
        self.wake()

    def send(self, command, offset, data, eof, done):
        """Queue bytes for stdin; what was taken before is skipped. `done(accepted)` is called when they are written."""
        fresh = data[max(0, command.stdin_taken - offset) :]
        command.stdin_taken = max(command.stdin_taken, offset + len(data))
        pipe = command.process.stdin if command.process is not None else None
        if pipe is None or pipe.closed:
            done(False)
            return
        command.stdin.append([memoryview(fresh), eof, done])
        if len(command.stdin) == 1:
            self._selector.register(pipe, selectors.EVENT_WRITE, lambda _m: self._feed(command))

    def _feed(self, command):
        pipe = command.process.stdin
        item = command.stdin[0]
        try:
            if item[0]:
                item[0] = item[0][os.write(pipe.fileno(), item[0]) :]
        except BlockingIOError:
            return
        except OSError:
            self._close_stdin(command)
            return
        if not item[0]:
            command.stdin.popleft()
            item[2](True)
            if not command.stdin:
                self._selector.unregister(pipe)
            if item[1]:
                self._close_stdin(command)

    def _close_stdin(self, command):
        pipe = command.process.stdin if command.process is not None else None
        if pipe is None or pipe.closed:
            return
        if command.stdin:
            self._selector.unregister(pipe)
        waiting, command.stdin = command.stdin, collections.deque()
        pipe.close()
        for _, _, done in waiting:
            done(False)

    def _forget_old(self):
        while len(self._finished) > 1 and (len(self._finished) > FINISHED or self._spooled > SPOOLED):
            old = self._finished.popleft()
            self._spooled -= old.out.kept + old.err.kept
            old.out.remove()
            old.err.remove()
            del self._known[old.key]


def _widen(pipe):
    try:
        fcntl.fcntl(pipe.fileno(), 1031, PIPE_SIZE)  # F_SETPIPE_SZ
    except OSError:
        pass
