"""Walks over the sandbox's files: glob, grep and the manifest. Bounded in time and in matches; they can be cancelled."""

import hashlib
import os
import stat
import time

from . import files, media, text

SECONDS = 20.0
"""How long one walk may take."""
MANIFEST_SECONDS = 600.0
"""How long listing and hashing a whole workspace may take."""
MATCHES = 20000
"""Matches of one search at most."""
BYTES = 4 * 1024 * 1024
"""Bytes of matching lines of one grep at most."""
FILE_CAP = 256 * 1024 * 1024
"""Larger files are not searched."""


class Budget:
    """Time, matches and bytes that are left, and whether anybody still waits."""

    def __init__(self, cancelled, matches=MATCHES, seconds=SECONDS):
        self._cancelled = cancelled
        self._end = time.monotonic() + seconds
        self.matches = matches
        self.bytes = BYTES
        self.spent = False
        self.unreadable = False

    def ok(self):
        """Whether to go on."""
        if not self.spent:
            self.spent = self._cancelled() or time.monotonic() > self._end or self.matches <= 0 or self.bytes <= 0
        return not self.spent


def walk(root, budget, skip=()):
    """Non-directories below `root`, in order of path: (relative path, entry). Links are not followed."""
    stack = [("", root)]
    while stack and budget.ok():
        prefix, folder = stack.pop()
        if prefix and not prefix.endswith("/"):
            yield prefix, folder
            continue
        try:
            with os.scandir(folder) as found:
                entries = [entry for entry in found if entry.name not in skip]
        except OSError:
            budget.unreadable = True
            continue
        marked = [(entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name, entry) for entry in entries]
        marked.sort(key=lambda pair: pair[0], reverse=True)
        stack.extend((prefix + name, entry.path if name.endswith("/") else entry) for name, entry in marked)


def _start(path):
    """Check the root of a search; returns whether it is a directory."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except OSError as exc:
        raise files.refusal(exc, path) from exc


def glob(pattern, path, cancelled):
    """Regular files below `path` that match."""
    matches_glob = text.glob_matcher(pattern)
    if not _start(path):
        raise text.Refused("invalid_path", "Error: '{}' is not a directory".format(path))
    budget, found = Budget(cancelled), []
    for relative, entry in walk(path, budget):
        if matches_glob(relative):
            try:
                status = entry.stat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append(files.describe(entry.path, status))
                budget.matches -= 1
    reason = "budget" if budget.spent else "unreadable" if budget.unreadable else None
    return {"matches": found, "truncated": reason is not None, "truncation_reason": reason}


def grep(pattern, path, glob_pattern, max_count, cancelled):
    """Lines with `pattern` in the text files below `path`, or in the file `path`. No link below it is followed."""
    if not pattern:
        raise text.Refused("invalid_argument", "Error: the pattern must not be empty")
    wanted = pattern.encode("utf-8", "surrogateescape")
    matches_glob = text.glob_matcher(glob_pattern) if glob_pattern else None
    folder = _start(path)
    limit = MATCHES if max_count is None else max(0, min(max_count, MATCHES))
    budget, found = Budget(cancelled, limit + 1), []
    candidates = walk(path, budget) if folder else [(os.path.basename(path), None)]
    for relative, entry in candidates:
        if matches_glob and not matches_glob(relative) or entry is not None and entry.is_symlink():
            continue
        where = path if entry is None else entry.path
        for line, shown in text.grep_lines(_content(where, budget), wanted, budget.matches):
            found.append({"path": where, "line": line, "text": shown})
            budget.matches -= 1
            budget.bytes -= len(shown)
    return {"matches": found[:limit], "truncated": len(found) > limit or (budget.spent and budget.matches > 0)}


def _content(path, budget):
    if media.is_media(path):
        return b""
    try:
        file, status = files.open_regular(path)
    except text.Refused as exc:
        budget.unreadable = budget.unreadable or exc.code == "permission_denied"
        return b""
    with file:
        head = file.read(text.SNIFF)
        if status.st_size > FILE_CAP or text.is_binary(head):
            return b""
        return head if len(head) < text.SNIFF else head + file.read(status.st_size)


def manifest(root, exclude, cancelled, known):
    """Files and links below `root`, sorted: records of `mode size blob path`, each ended by NUL; a link's is followed by its
    target, also ended by NUL. `known` is the `hashed.Walk` of this walk."""
    if not _start(root):
        raise text.Refused("invalid_path", "Error: '{}' is not a directory".format(root))
    budget = Budget(cancelled, matches=10**9, seconds=MANIFEST_SECONDS)
    records = []
    for relative, entry in walk(root, budget, frozenset(exclude)):
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(entry.path))
            name, record = _record("120000", len(target), _blob(len(target), [target]), relative)
            records.append((name, record + target + b"\0"))
        elif stat.S_ISREG(status.st_mode):
            mode = "100755" if status.st_mode & 0o100 else "100644"
            size, blob = known.blob(status, lambda path=entry.path: _hash_file(path, budget))
            records.append(_record(mode, size, blob, relative))
    if budget.spent:
        raise text.Refused("timeout", "Error: the workspace could not be read in time")
    if budget.unreadable:
        raise text.Refused("permission_denied", "Error: a folder below '{}' cannot be read".format(root))
    records.sort()
    return b"".join(record for _, record in records)


def _record(mode, size, blob, relative):
    name = os.fsencode(relative)
    return name, "{} {} {} ".format(mode, size, blob).encode() + name + b"\0"


def _hash_file(path, budget):
    """The status of a file when it was opened, its size and its blob id."""
    file, status = files.open_regular(path)
    with file:
        size = status.st_size
        if size <= 1024 * 1024:
            data = file.read(size + 1)
            return status, len(data), _blob(len(data), [data])
        return status, size, _blob(size, _exactly(file, size, budget))


def _exactly(file, size, budget):
    while size > 0 and budget.ok():
        chunk = file.read(min(size, 1024 * 1024))
        if not chunk:
            return
        size -= len(chunk)
        yield chunk


def _blob(size, chunks):
    digest = hashlib.sha1(b"blob %d\0" % size)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()
