"""What there is where edits are to be made, whether it is what they were made for, and what has to be done then."""

import os
import stat

from . import search

FOLDER = "040000"
"""How the state of an empty folder begins."""


class Survey:
    """One look at all the paths of some edits. Links are never followed. Without `refused` paths, the rest is what to do."""

    def __init__(self, root, edits):
        self.refused = []
        self.aside = []
        """(index, path) of what has to go."""
        self.vacated = []
        """(path, permissions) of folders in whose place something else comes, those above first."""
        self.made = []
        """Folders that have to be made, those above first."""
        self.placed = []
        """(index, path, permissions) of what comes; None: those that it has."""
        self.emptied = []
        """(path, permissions) of folders that go if they are empty in the end, those above first."""
        self._root = root
        self._edits = {path: (before, after) for path, before, after in edits}
        self._blocking = {"": None}
        self._filled = {folder for path, _, after in edits if after is not None for folder in _parents(path)}
        leaving = set()
        for index, (path, before, after) in enumerate(edits):
            self._look(index, path, before, after, leaving)
        self._find_made()
        self._find_emptied(leaving)

    def plan(self):
        """How everything goes back, as JSON."""
        return {
            "aside": self.aside,
            "made": self.made,
            "placed": [(index, path) for index, path, _ in self.placed],
            "folders": sorted({*self.vacated, *self.emptied}),
        }

    def _look(self, index, path, before, after, leaving):
        blocker = self._blocker(os.path.dirname(path))
        status = None if blocker is not None else _status(os.path.join(self._root, path))
        if blocker is not None and blocker not in self._edits:
            self.refused.append(path)
        elif status is not None and stat.S_ISDIR(status.st_mode):
            self._look_at_folder(index, path, before, after, leaving)
        else:
            now = None if status is None else _state(os.path.join(self._root, path), status)
            if now == after:
                return
            if now != before:
                self.refused.append(path)
                return
            if now is not None:
                self.aside.append((index, path))
                leaving.add(path)
            if after is not None and not after.startswith(FOLDER):
                self.placed.append((index, path, _permissions(status, after)))

    def _look_at_folder(self, index, path, before, after, leaving):
        """A folder is as good as nothing when nothing is going to be in it, or only what these edits put there."""
        if after is not None and after.startswith(FOLDER):
            return
        if before is not None and not before.startswith(FOLDER):
            if after is not None or path not in self._filled:
                self.refused.append(path)
        elif after is None:
            leaving.add(path + "/")
        elif self._vacate(path):
            self.placed.append((index, path, None))
        else:
            self.refused.append(path)

    def _vacate(self, path):
        """Note the folders of a tree of which nothing else stays; whether that is so."""
        found, pending = [], [path]
        while pending:
            folder = pending.pop()
            found.append((folder, stat.S_IMODE(os.lstat(os.path.join(self._root, folder)).st_mode)))
            with os.scandir(os.path.join(self._root, folder)) as entries:
                for entry in entries:
                    inner = folder + "/" + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(inner)
                    elif self._edits.get(inner, (None, ""))[1] is not None:
                        return False
        self.vacated += sorted(found)
        return True

    def _blocker(self, folder):
        """What is above a path, or is the folder itself, and is no folder; None when there is none, or nothing at all."""
        if folder not in self._blocking:
            blocker = self._blocker(os.path.dirname(folder))
            if blocker is None:
                status = _status(os.path.join(self._root, folder))
                if status is not None and not stat.S_ISDIR(status.st_mode):
                    blocker = folder
            self._blocking[folder] = blocker
        return self._blocking[folder]

    def _find_made(self):
        wanted = {folder for _, path, _ in self.placed for folder in _parents(path)}
        for path, (_, after) in self._edits.items():
            if after is not None and after.startswith(FOLDER):
                wanted.update([path, *_parents(path)])
        for folder in sorted(wanted, key=os.fsencode):
            status = _status(os.path.join(self._root, folder)) if self._blocker(os.path.dirname(folder)) is None else None
            if status is None or not stat.S_ISDIR(status.st_mode):
                self.made.append(folder)

    def _find_emptied(self, leaving):
        gone = {path for path, _ in self.vacated}
        kept = {path for path, (_, after) in self._edits.items() if after is not None}
        for folder in sorted({above for path in leaving for above in _parents(path)} - gone - kept):
            self.emptied.append((folder, stat.S_IMODE(os.lstat(os.path.join(self._root, folder)).st_mode)))


def _parents(path):
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _status(path):
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _state(path, status):
    """The state of what is no folder; of neither a file nor a link one that nothing else has."""
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(path))
        return "120000 " + search.blob_id(len(target), [target])
    if stat.S_ISREG(status.st_mode):
        _, _, blob = search.hash_file(path, search.Budget(lambda: False, seconds=search.MANIFEST_SECONDS))
        return "{} {}".format(search.file_mode(status), blob)
    return "other"


def _permissions(status, after):
    """What a new file keeps of the permissions of an old one; None when it has these as it is made."""
    if status is None or not stat.S_ISREG(status.st_mode) or after.startswith("120000"):
        return None
    old, usual = stat.S_IMODE(status.st_mode), 0o755 if after.startswith("100755") else 0o644
    if (old & 0o100) == (usual & 0o100):
        kept = old
    else:
        kept = old & ~0o111 if old & 0o100 else old | (old & 0o444) >> 2 | 0o100
    return None if kept == usual else kept
