"""Backends for the tests of what is made of other backends: files in a dict, and a sandbox of the kind that tells little."""

from sandboxes import protocol as p
from sandboxes.backends.keyvalue import KeyValueBackend


class Memory(KeyValueBackend):
    """Files in a dict. `asked` tells what was called, and how."""

    def __init__(self, files=None):
        super().__init__()
        self.kept = {}
        self.asked = []
        for path, content in (files or {}).items():
            self.write(path, content)
        self.asked.clear()

    def load(self, path):
        return self.kept.get(path)

    def save(self, files):
        self.kept.update(files)

    def remove(self, paths):
        for path in paths:
            self.kept.pop(path, None)

    def scan(self, prefix):
        return ((path, kept) for path, kept in list(self.kept.items()) if path.startswith(prefix))

    def grep(self, pattern, path=None, glob=None, *, max_count=None):
        self.asked.append(("grep", path, glob, max_count))
        return super().grep(pattern, path, glob, max_count=max_count)

    def upload_files(self, files):
        self.asked.append(("upload", [path for path, _ in files]))
        return super().upload_files(files)

    def download_files(self, paths):
        self.asked.append(("download", list(paths)))
        return super().download_files(paths)


class Box(Memory, p.SandboxBackendProtocol):
    """A sandbox that does not tell its working directory, and whose commands say what they are."""

    @property
    def id(self):
        return "box-1"

    def execute(self, command, *, timeout=None):
        return p.ExecuteResponse(output=f"{command} {timeout}", exit_code=0)


class Rooted(Box):
    """A sandbox that tells it."""

    workdir = "/workspace"


def paths(result):
    """The paths of a listing or of matches; the error when there is one."""
    if result.error is not None:
        return result.error
    return [one["path"] for one in (result.entries if isinstance(result, p.LsResult) else result.matches)]
