"""Files under way: written aside, and there under their name, whole, at once."""

import errno
import os

NEW_MODE = 0o644
UMASK = 0o022
"""The helper's own, and so that of the commands."""
_WRITE = os.O_RDWR | os.O_CLOEXEC
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)
"""What a file system says that has no nameless files."""


class Draft:
    """A new file beside `path`, whose parent directories are made: nameless where that can be, else under a passing name."""

    def __init__(self, path, mode=0o600):
        self._folder = os.path.dirname(path)
        self._name = None
        try:
            self.descriptor = self._open(mode)
        except FileNotFoundError:
            _make_folders(self._folder)
            self.descriptor = self._open(mode)
        if mode & UMASK:
            os.fchmod(self.descriptor, mode)

    def _open(self, mode):
        try:
            return os.open(self._folder, _WRITE | os.O_TMPFILE, mode)
        except OSError as exc:
            if exc.errno not in _NO_NAMELESS:
                raise
        name = self._passing_name()
        descriptor = os.open(name, _WRITE | os.O_CREAT | os.O_EXCL, mode)
        self._name = name
        return descriptor

    def _passing_name(self):
        return os.path.join(self._folder, ".fanfold-{}.tmp".format(os.urandom(6).hex()))

    def write(self, content, offset=0):
        """Write all of it at `offset`."""
        view = memoryview(content)
        while view:
            written = os.pwrite(self.descriptor, view, offset)
            view, offset = view[written:], offset + written

    def publish(self, path, exclusive):
        """Make it visible as `path` at once. Raises `FileExistsError` when it is `exclusive` and `path` exists."""
        try:
            self._link(path)
        except FileExistsError:
            if exclusive:
                raise
            if self._name is None:
                name = self._passing_name()
                self._link(name)
                self._name = name
            os.replace(self._name, path)
            self._name = None

    def _link(self, path):
        if self._name is not None:
            os.link(self._name, path)
        else:
            # With a descriptor given, this is the system call that follows the link in /proc; the path is absolute.
            os.link("/proc/self/fd/{}".format(self.descriptor), path, src_dir_fd=self.descriptor, follow_symlinks=True)

    def close(self):
        """Let go of it. What was not published is gone."""
        os.close(self.descriptor)
        if self._name is not None:
            try:
                os.unlink(self._name)
            except OSError:
                pass


def _make_folders(path):
    """What `os.makedirs` does, without one more call on the stack for each folder."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:
            pass  # somebody else was faster, or there is a file: then what follows fails
