"""What a command has printed: a file on the sandbox's disk, with a cap, that is read by offset."""

import os

CAP = 256 * 1024 * 1024
"""Bytes of one stream that are kept. What comes after is counted, and its end kept in memory."""
TAIL = 64 * 1024
"""Bytes of the end that are kept of a stream that is longer."""


class Spool:
    """One stream of one command. The file is made when the first byte comes, and never held open: there may be thousands."""

    def __init__(self, path):
        self.path = path
        self.kept = 0
        self.total = 0
        self._tail = b""

    def append(self, data):
        """Keep what fits. A full disk loses output, never the command."""
        room = data[: max(0, CAP - self.kept)] if self.kept == self.total else b""
        self.total += len(data)
        if room:
            try:
                self.kept += self._write(room)
            except OSError:
                pass
        if self.kept < self.total:
            self._tail = (self._tail + data)[-TAIL:]

    def _write(self, data):
        begin = os.O_TRUNC if self.kept == 0 else os.O_APPEND
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | begin, 0o600)
        try:
            return os.write(file, data)
        finally:
            os.close(file)

    def read(self, offset, length):
        """Bytes from `offset`, as many as are kept and asked for."""
        if offset >= self.kept:
            return b""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(file, min(length, self.kept - offset), offset)
        finally:
            os.close(file)

    def digest(self, cap):
        """The whole output when it has at most `cap` bytes, else its head and its tail: (head, bytes left out, tail)."""
        if self.total <= cap:
            return self.read(0, cap), 0, b""
        half = cap // 2
        head = self.read(0, half)
        if self.kept < self.total:
            tail = self._tail[-half:]
        else:
            tail = self.read(self.total - half, half)
        return head, self.total - len(head) - len(tail), tail

    @property
    def lost(self):
        """Bytes that were not kept."""
        return self.total - self.kept

    def remove(self):
        """Drop the file."""
        self.kept = 0
        try:
            os.unlink(self.path)
        except OSError:
            pass
