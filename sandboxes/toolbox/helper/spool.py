"""What a command has printed: a file on the sandbox's disk, with a cap, that is read by offset."""

import os

CAP = 256 * 1024 * 1024
"""Bytes of one stream that are kept. What comes after is counted, and its end kept in memory."""
TAIL = 64 * 1024
"""Bytes of the end that are kept of a stream that is longer."""


class Spool:
    """One stream of one command. The file is made when the first byte comes."""

    def __init__(self, path):
        self.path = path
        self.kept = 0
        self.total = 0
        self._file = None
        self._tail = b""

    def append(self, data):
        """Keep what fits. A full disk loses output, never the command."""
        self.total += len(data)
        room = data[: max(0, CAP - self.kept)]
        if room and self.kept == self.total - len(data):
            try:
                if self._file is None:
                    self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                self.kept += os.write(self._file, room)
            except OSError:
                pass
        if self.kept < self.total:
            self._tail = (self._tail + data)[-TAIL:]

    def read(self, offset, length):
        """Bytes from `offset`, as many as are kept and asked for."""
        if self._file is None or offset >= self.kept:
            return b""
        return os.pread(self._file, min(length, self.kept - offset), offset)

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
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self.kept = 0
            try:
                os.unlink(self.path)
            except OSError:
                pass
