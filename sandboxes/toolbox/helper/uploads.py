"""Long files of one client, which arrive in pieces."""

import os
import threading

from . import files, text
from .drafts import Draft


class Uploads:
    """A draft for each file, published when the last piece is there."""

    def __init__(self):
        self._open = {}
        self._lock = threading.Lock()

    def begin(self, token, path, mode):
        """Make the draft."""
        try:
            draft = Draft(os.path.realpath(path))
        except OSError as exc:
            raise files.refusal(exc, path) from exc
        with self._lock:
            self._open[token] = (draft, path, mode)
        return {}

    def piece(self, token, offset, content):
        """Write one piece; pieces may come in any order. One that comes after the file was given up is refused."""
        with self._lock:
            draft, path, _ = self._opened(token)
            try:
                draft.write(content, offset)
            except OSError as exc:
                raise files.refusal(exc, path) from exc
        return {}

    def _opened(self, token):
        if token not in self._open:
            raise text.Refused("no_such_upload", "Error: this upload was not begun, or has been given up")
        return self._open[token]

    def finish(self, token, exclusive):
        """Publish a file whose pieces are all there."""
        with self._lock:
            draft, path, mode = self._opened(token)
            del self._open[token]
        return files.publish(draft, path, mode, exclusive)

    def take(self, token):
        """The draft of a content, which is the caller's to close from now on."""
        with self._lock:
            draft, _, _ = self._opened(token)
            del self._open[token]
        return draft

    def drop(self, token):
        """Give up a file that will not be finished."""
        with self._lock:
            draft, _, _ = self._open.pop(token, (None, None, None))
        if draft is not None:
            draft.close()
        return {}

    def abandon(self):
        """Drop what was not finished: the client is gone."""
        for token in list(self._open):
            self.drop(token)
