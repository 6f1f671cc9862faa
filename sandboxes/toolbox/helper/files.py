"""File operations on the sandbox's own file system. Each takes checked, absolute paths and returns a plain dict."""

import errno
import os
import stat
import threading
import time

from . import text
from .drafts import NEW_MODE, Draft

_EDITING = threading.Lock()
"""Edits read, change and write: one at a time, so that none undoes another."""

_CODES = {
    errno.ENOENT: ("file_not_found", "not found"),
    errno.ENOTDIR: ("invalid_path", "has a file where a directory should be"),
    errno.EISDIR: ("is_directory", "is a directory"),
    errno.EACCES: ("permission_denied", "cannot be used: permission denied"),
    errno.EPERM: ("permission_denied", "cannot be used: operation not permitted"),
    errno.EROFS: ("permission_denied", "is on a read-only file system"),
    errno.ENAMETOOLONG: ("invalid_path", "has a name that is too long"),
    errno.ELOOP: ("invalid_path", "goes through too many symbolic links"),
    errno.ENOSPC: ("no_space", "cannot be written: no space left on the device"),
    errno.EDQUOT: ("no_space", "cannot be written: disk quota exceeded"),
    errno.EEXIST: ("already_exists", "exists already"),
}


def refusal(exc, path):
    """An `OSError` about `path` as a refusal."""
    if exc.errno == errno.ENOENT:
        return text.not_found(path)
    code, what = _CODES.get(exc.errno, ("io_error", "cannot be used: {}".format(exc.strerror)))
    return text.Refused(code, "Error: '{}' {}".format(path, what))


def iso(seconds):
    """A file time as ISO 8601, UTC."""
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + ".{:06d}+00:00".format(int((seconds - whole) * 1e6))


def describe(path, status):
    """A `FileInfo` from a path and its status."""
    folder = stat.S_ISDIR(status.st_mode)
    info = {"path": path + "/" if folder and path != "/" else path, "is_dir": folder, "modified_at": iso(status.st_mtime)}
    if not folder:
        info["size"] = status.st_size
    return info


def ls(path):
    """Entries of a directory, sorted by path."""
    entries = []
    try:
        with os.scandir(path) as found:
            for entry in found:
                try:
                    status = entry.stat()
                except OSError:
                    status = entry.stat(follow_symlinks=False)
                entries.append(describe(entry.path, status))
    except NotADirectoryError:
        raise text.Refused("invalid_path", "Error: '{}' is not a directory".format(path)) from None
    except FileNotFoundError:
        raise text.Refused("file_not_found", "Error: Directory '{}' not found".format(path)) from None
    except OSError as exc:
        raise refusal(exc, path) from exc
    entries.sort(key=lambda entry: entry["path"])
    return {"entries": entries}


def open_regular(path):
    """Open a regular file for reading: (file, size). Pipes, devices and directories are refused without blocking."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        raise refusal(exc, path) from exc
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise text.Refused("is_directory", "Error: '{}' is a directory".format(path))
        raise text.Refused("invalid_path", "Error: '{}' is not a regular file".format(path))
    return os.fdopen(descriptor, "rb", buffering=0), status


def read(path, offset, limit, byte_offset):
    """A window of a file; see `text.read_window`."""
    file, status = open_regular(path)
    with file:
        try:
            result = text.read_window(file, status.st_size, offset, limit, byte_offset, path=path)
        except OSError as exc:
            raise refusal(exc, path) from exc
    result["modified_at"] = iso(status.st_mtime)
    return result


def get(path, offset, length):
    """A range of a file's bytes: ({"size": of the whole}, bytes)."""
    file, status = open_regular(path)
    with file:
        try:
            left = max(0, status.st_size - offset)
            return {"size": status.st_size}, os.pread(file.fileno(), min(length, left), offset)
        except OSError as exc:
            raise refusal(exc, path) from exc


def exists(path):
    """The refusal of a create-only write."""
    return text.Refused(
        "already_exists",
        "Error: '{}' exists already: read it and edit it, or write to another path".format(path),
    )


def put(path, content, exclusive, mode=None):
    """Write a whole small file atomically, through symbolic links. A new file has `mode`, or 0644; an old one keeps its own."""
    try:
        target, current = destination(path)
        if exclusive and current is not None:
            raise exists(path)
        draft = Draft(target, mode if mode is not None else NEW_MODE if current is None else current)
        try:
            draft.write(content)
            draft.publish(target, exclusive)
        finally:
            draft.close()
    except FileExistsError:
        raise exists(path) from None
    except OSError as exc:
        raise refusal(exc, path) from exc
    return {"path": path}


def publish(draft, path, mode, exclusive):
    """Make a draft visible as `path`, through symbolic links, as `put` does; it is closed then."""
    try:
        target, current = destination(path)
        os.fchmod(draft.descriptor, mode if mode is not None else NEW_MODE if current is None else current)
        draft.publish(path if exclusive else target, exclusive)
    except FileExistsError:
        raise exists(path) from None
    except OSError as exc:
        raise refusal(exc, path) from exc
    finally:
        draft.close()
    return {"path": path}


def destination(path):
    """Where a write goes, through symbolic links, and the permissions of what is there (None: nothing is)."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return path, None
    if not stat.S_ISLNK(status.st_mode):
        return path, stat.S_IMODE(status.st_mode)
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)  # first: a chain that is too long for the kernel is too long for `realpath`
    except FileNotFoundError:
        mode = NEW_MODE
    return os.path.realpath(path), mode


def edit(path, old, new, replace_all):
    """Replace a string in a UTF-8 text file; see `text.replace`."""
    with _EDITING:
        changed, count = text.replace(_whole_text(path), old, new, replace_all, path)
        put(path, changed.encode("utf-8", "surrogateescape"), exclusive=False)
    return {"path": path, "occurrences": count}


def _whole_text(path):
    file, status = open_regular(path)
    with file:
        if status.st_size > text.SCAN_CAP:
            raise text.Refused("invalid_argument", "Error: '{}' is too large to edit".format(path))
        data = file.read(status.st_size)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise text.Refused("invalid_argument", "Error: '{}' is not UTF-8 text: it cannot be edited".format(path)) from None


def delete(path):
    """Delete a file, a link (not what it points to) or a directory with all that is in it."""
    if path == "/":
        raise text.Refused("permission_denied", "Error: '/' cannot be deleted")
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            import shutil

            shutil.rmtree(path)
        else:
            os.unlink(path)
    except OSError as exc:
        raise refusal(exc, path) from exc
    return {"path": path}
