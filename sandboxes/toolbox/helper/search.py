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
STAGING = ".fanfold-apply-"
"""How the names of folders begin in which edits are prepared: no manifest tells of them."""
EMPTY_FOLDER = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Git's id of a folder with nothing in it."""


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


def walk(root, budget, wanted=None, folders=False):
    """Non-directories below `root`, in order of path: (relative path, entry). Links are not followed.

    `wanted` says of an entry whether it is looked at. With `folders` those below `root` with nothing that could be told of in
    them come too: with None in place of an entry.
    """
    stack = [("", root)]
    while stack and budget.ok():
        prefix, folder = stack.pop()
        if prefix and not prefix.endswith("/"):
            yield prefix, folder
            continue
        try:
            with os.scandir(folder) as found:
                entries = [entry for entry in found if wanted is None or wanted(entry)]
        except OSError:
            budget.unreadable = True
            continue
        if folders and prefix and not any(map(is_told, entries)):
            yield prefix[:-1], None
        marked = [(entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name, entry) for entry in entries]
        marked.sort(key=lambda pair: pair[0], reverse=True)
        stack.extend((prefix + name, entry.path if name.endswith("/") else entry) for name, entry in marked)


def is_told(entry):
    """Whether an entry of a folder is of a kind that a manifest tells of: a file, a link or a folder."""
    return entry.is_file(follow_symlinks=False) or entry.is_symlink() or entry.is_dir(follow_symlinks=False)


def _start(path):
    """Check the root of a search; returns whether it is a directory."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except OSError as exc:
        raise files.refusal(exc, path) from exc


def check_folder(path):
    """Check the root of a search that only a directory can be."""
    if not _start(path):
        raise text.Refused("invalid_path", "Error: '{}' is not a directory".format(path))


def glob(pattern, path, cancelled):
    """Regular files below `path` that match."""
    matches_glob = text.glob_matcher(pattern)
    check_folder(path)
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


def manifest(root, exclude, cancelled, known, folders=False, closed=()):
    """Files and links below `root`, sorted: records of `mode size blob path`, each ended by NUL; a link's is followed by its
    target, also ended by NUL. `known` is the `hashed.Walk` of this walk. With `folders` the empty ones too; `closed` are paths
    that are left out."""
    check_folder(root)
    budget = Budget(cancelled, matches=10**9, seconds=MANIFEST_SECONDS)
    found = (record(path, entry, budget, known) for path, entry in walk(root, budget, chooser(exclude, closed), folders))
    records = sorted(filter(None, found))
    check_complete(budget, root)
    return b"".join(told for _, told in records)


def chooser(exclude, closed):
    """What a manifest looks at of the entries of a folder."""
    names, places = frozenset(exclude), frozenset(closed)

    def wanted(entry):
        name = entry.name
        return name not in names and not name.startswith(STAGING) and not (places and entry.path in places)

    return wanted


def check_complete(budget, root):
    """Refuse to tell of a part as if it were all."""
    if budget.spent:
        raise text.Refused("timeout", "Error: the workspace could not be read in time")
    if budget.unreadable:
        raise text.Refused("permission_denied", "Error: a folder below '{}' cannot be read".format(root))


def record(relative, entry, budget, known):
    """What a manifest tells of an entry: its name and its record; None of what is neither file nor link, or empty folder."""
    name = os.fsencode(relative)
    if entry is None:
        return name, _told("040000", 0, EMPTY_FOLDER, name)
    status = entry.stat(follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(entry.path))
        return name, _told("120000", len(target), blob_id(len(target), [target]), name) + target + b"\0"
    if stat.S_ISREG(status.st_mode):
        size, blob = known.blob(status, lambda: hash_file(entry.path, budget))
        return name, _told(file_mode(status), size, blob, name)
    return None


def file_mode(status):
    """The mode of a file in a Git tree."""
    return "100755" if status.st_mode & 0o100 else "100644"


def _told(mode, size, blob, name):
    return "{} {} {} ".format(mode, size, blob).encode() + name + b"\0"


def hash_file(path, budget):
    """The status of a file when it was opened, its size and its blob id."""
    file, status = files.open_regular(path)
    with file:
        size = status.st_size
        if size <= 1024 * 1024:
            data = file.read(size + 1)
            return status, len(data), blob_id(len(data), [data])
        return status, size, blob_id(size, _exactly(file, size, budget))


def _exactly(file, size, budget):
    while size > 0 and budget.ok():
        chunk = file.read(min(size, 1024 * 1024))
        if not chunk:
            return
        size -= len(chunk)
        yield chunk


def blob_id(size, chunks):
    """Git's id of a content of so many bytes."""
    digest = hashlib.sha1(b"blob %d\0" % size)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()
