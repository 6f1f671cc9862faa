"""Many files changed at once or not at all.

What is new is prepared in a folder beside (`new/`), what is in its way is kept there (`old/`), and `plan` says, while things
are being moved, how all of it goes back: so whoever finds such a folder with a plan in it puts everything back, and whoever
finds one without removes it. A state is `MODE BLOB` as in a Git tree, or None where nothing is.
"""

import contextlib
import json
import os
import threading

from . import search, survey, text

REFUSED = 1000
"""Paths that an answer names at most."""
PIECE = 1024 * 1024
"""Bytes of a content that are held at once."""
_APPLYING = threading.Lock()


def apply(root, edits, contents, upper=None):
    """Change all the paths of `edits`, or name those that are not as they were. An edit is (path, state before, state after).

    They are sorted, and agree with each other. `upper` is the layer that `root` is written to, if it is an overlay. Raises
    `OSError` or `Refused`; then everything is as it was.
    """
    search.check_folder(root)
    with _APPLYING:
        with os.scandir(root) as found:
            left = [one.path for one in found if one.name.startswith(search.STAGING) and one.is_dir(follow_symlinks=False)]
        for place in left:
            settle(root, place)
        place = os.path.join(root, search.STAGING + os.urandom(8).hex())
        os.mkdir(place, 0o700)
        try:
            return {"refused": _apply(root, place, edits, contents, upper)}
        finally:
            settle(root, place)


def _apply(root, place, edits, contents, upper):
    for part in ("new", "old"):
        os.mkdir(os.path.join(place, part))
    for index, (path, _, after) in enumerate(edits):
        if after is not None and not after.startswith(survey.FOLDER):
            contents.write(after, os.path.join(place, "new", str(index)), path)
    found = survey.Survey(root, edits)
    if found.refused:
        return found.refused[:REFUSED]
    if upper is not None:
        _keep_copies(root, place, found, upper)
    with open(os.path.join(place, "plan.new"), "w") as file:
        json.dump(found.plan(), file)
    os.rename(os.path.join(place, "plan.new"), os.path.join(place, "plan"))
    _move(root, place, found)
    os.unlink(os.path.join(place, "plan"))
    return []


def _keep_copies(root, place, found, upper):
    """Copy what lies in a lower layer: the kernel would copy it to move it, and wait for the disk each time."""
    import shutil

    for index, path in found.aside:
        if not os.path.lexists(os.path.join(upper, path)):
            shutil.copy2(os.path.join(root, path), os.path.join(place, "old", str(index)), follow_symlinks=False)


def _move(root, place, found):
    at = ""
    try:
        for index, at in found.aside:
            kept = os.path.join(place, "old", str(index))
            if os.path.lexists(kept):
                os.unlink(os.path.join(root, at))
            else:
                os.rename(os.path.join(root, at), kept)
        for at, _ in reversed(found.vacated):
            os.rmdir(os.path.join(root, at))
        for at in found.made:
            os.mkdir(os.path.join(root, at))
        for index, at, mode in found.placed:
            staged = os.path.join(place, "new", str(index))
            if mode is not None:
                os.chmod(staged, mode)
            os.rename(staged, os.path.join(root, at))
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, os.path.join(root, at)) from exc
    for at, _ in reversed(found.emptied):
        with contextlib.suppress(OSError):  # it is not empty
            os.rmdir(os.path.join(root, at))


def settle(root, place):
    """Put everything back if it was being moved, and remove the folder. Who is stopped in the middle can begin again."""
    import shutil

    plan = os.path.join(place, "plan")
    try:
        with open(plan) as file:
            told = json.load(file)
    except FileNotFoundError:
        told = None
    if told is not None:
        _put_back(root, place, told)
        os.unlink(plan)
    shutil.rmtree(place)


def _put_back(root, place, told):
    for index, path in told["placed"]:
        staged = os.path.join(place, "new", str(index))
        if not os.path.lexists(staged):
            with contextlib.suppress(FileNotFoundError):
                os.rename(os.path.join(root, path), staged)
    for path in reversed(told["made"]):
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(root, path))
    for path, mode in told["folders"]:
        folder = os.path.join(root, path)
        if not os.path.lexists(folder):
            os.mkdir(folder)
            os.chmod(folder, mode)
    for index, path in told["aside"]:
        kept = os.path.join(place, "old", str(index))
        if os.path.lexists(kept):
            os.rename(kept, os.path.join(root, path))


class Contents:
    """New contents, which lie one after the other in an open file: pairs of blob id and size, in this order."""

    def __init__(self, descriptor, blobs):
        self._descriptor = descriptor
        self._extents = {}
        at = 0
        for blob, size in blobs:
            self._extents[blob] = (at, size)
            at += size

    def write(self, state, target, path):
        """Make the file or link that a state describes. Its content must be what the state says."""
        mode, blob = state.split()
        at, size = self._extents[blob]
        if mode == "120000":
            whole = os.pread(self._descriptor, size, at)
            self._check(search.blob_id(size, [whole]), blob, path)
            os.symlink(os.fsdecode(whole), target)
            return
        file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o755 if mode == "100755" else 0o644)
        try:
            self._check(search.blob_id(size, self._copied(at, size, file)), blob, path)
        finally:
            os.close(file)

    def _copied(self, at, size, file):
        """The pieces of a content, each written to a file."""
        while size > 0:
            piece = os.pread(self._descriptor, min(size, PIECE), at)
            if not piece:
                return
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(file, rest) :]
            at, size = at + len(piece), size - len(piece)
            yield piece

    def _check(self, found, blob, path):
        if found != blob:
            raise text.Refused("io_error", "Error: what came for '{}' is not what it was to be".format(path))
