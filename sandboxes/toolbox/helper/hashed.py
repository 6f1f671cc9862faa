"""What was hashed before, so that a file that did not change is not read again.

A file is known by its device, inode, size and times. The time of its last change of any kind (ctime) cannot be set by a
program, so content that changed has another one, but for two changes within one tick of the clock: what changed just now is
not remembered. A program that writes through a mapping of a file long after it has mapped it may go unnoticed, as in Git.
"""

import contextlib
import hashlib
import os
import time

from . import files, text

SETTLED = 1.0
"""Seconds after its last change from which on a file may be remembered."""
FILE_CAP = 64 * 1024 * 1024
"""Bytes that are kept: 1.6 million files."""
_KEY = 20
_RECORD = 40


class Hashed:
    """Blob ids of files, kept on the sandbox's disk between two walks."""

    def __init__(self, state, clock=time.time, name="hashed"):
        self._path = os.path.join(state, name)
        self._clock = clock

    def walk(self):
        """What is known now, for one walk; `save` what it has seen afterwards."""
        try:
            with open(self._path, "rb") as file:
                data = file.read(FILE_CAP)
        except OSError:
            data = b""
        ends = range(_RECORD, len(data) + 1, _RECORD)
        known = {data[end - _RECORD : end - _KEY]: data[end - _KEY : end] for end in ends}
        return Walk(known, self._clock() - SETTLED)

    def save(self, walk):
        """Keep what a walk has seen, and nothing else, where that is news. On a full disk the next walk reads it all again."""
        if walk.news:
            with contextlib.suppress(text.Refused):
                files.put(self._path, walk.seen()[:FILE_CAP], exclusive=False, mode=0o600)


class Walk:
    """What is known during one walk."""

    def __init__(self, known, settled):
        self.news = False
        self._known = known
        self._seen = {}
        self._settled = settled

    def blob(self, status, make):
        """The blob id of a file with this status; `make` reads it: its status when it was read, its size, and its blob id."""
        key = _key(status)
        blob = self._known.get(key)
        if blob is None:
            status, size, name = make()
            if status.st_ctime < self._settled and size == status.st_size:
                self._seen[_key(status)] = bytes.fromhex(name)
                self.news = True
            return size, name
        self._seen[key] = blob
        return status.st_size, blob.hex()

    def seen(self):
        """Records of what was met."""
        return b"".join(key + blob for key, blob in self._seen.items())


def _key(status):
    told = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return hashlib.sha1(repr(told).encode()).digest()
