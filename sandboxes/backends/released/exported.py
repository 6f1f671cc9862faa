"""Backends of ours as backends of the `deepagents` package. Imported only where that package is; see `deepagents.py`."""

from __future__ import annotations

from typing import Final, TypeVar

from deepagents import backends as theirs
from deepagents.backends import protocol as d

from sandboxes import protocol as p
from sandboxes.backends.composite import CompositeBackend
from sandboxes.backends.filesystem import FilesystemBackend
from sandboxes.backends.policy import PolicyBackend
from sandboxes.backends.released import as_theirs as t
from sandboxes.backends.state import StateBackend
from sandboxes.sandbox import Sandbox

ARTIFACTS_ROOT: Final = "/tmp/fanfold"  # noqa: S108  # in the sandbox
"""Where their harness puts long results and old messages in a sandbox of ours, whose `/` is read-only."""
WHOLE: Final = 10**9
"""More lines than a read returns: a file that it returns whole."""

T = TypeVar("T")


class Files(d.BackendProtocol):
    """The operations on files but for `delete`, which their harness offers wherever the class has one."""

    def __init__(self, ours: p.BackendProtocol, overwrite: bool = False) -> None:
        self.ours = ours
        self.overwrite = overwrite

    def ls(self, path: str) -> d.LsResult:
        """See the protocol."""
        return t.ls(self.ours.ls(path))

    async def als(self, path: str) -> d.LsResult:
        """See the protocol."""
        return t.ls(await self.ours.als(path))

    def read(self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT) -> d.ReadResult:
        """See the protocol."""
        return t.read(self.ours.read(file_path, max(0, offset), limit))

    async def aread(self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT) -> d.ReadResult:
        """See the protocol."""
        return t.read(await self.ours.aread(file_path, max(0, offset), limit))

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> d.GrepResult:
        """See the protocol."""
        return t.grep(self.ours.grep(pattern, path, glob, max_count=max_count))

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> d.GrepResult:
        """See the protocol."""
        return t.grep(await self.ours.agrep(pattern, path, glob, max_count=max_count))

    def glob(self, pattern: str, path: str | None = None) -> d.GlobResult:
        """See the protocol."""
        return t.glob(self.ours.glob(pattern, path))

    async def aglob(self, pattern: str, path: str | None = None) -> d.GlobResult:
        """See the protocol."""
        return t.glob(await self.ours.aglob(pattern, path))

    def write(self, file_path: str, content: str) -> d.WriteResult:
        """See the protocol."""
        result = self.ours.write(file_path, content)
        if result.error and self.overwrite and (data := t.encodable(content)) is not None:
            return t.replaced(file_path, self.ours.upload_files([(file_path, data)]))
        return t.write(result)

    async def awrite(self, file_path: str, content: str) -> d.WriteResult:
        """See the protocol."""
        result = await self.ours.awrite(file_path, content)
        if result.error and self.overwrite and (data := t.encodable(content)) is not None:
            return t.replaced(file_path, await self.ours.aupload_files([(file_path, data)]))
        return t.write(result)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> d.EditResult:
        """See the protocol."""
        return t.edit(self.ours.edit(file_path, old_string, new_string, replace_all))

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> d.EditResult:
        """See the protocol."""
        return t.edit(await self.ours.aedit(file_path, old_string, new_string, replace_all))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[d.FileUploadResponse]:
        """See the protocol."""
        came = self.ours.upload_files([file for file in files if t.absolute(file[0])])
        return t.uploads(files, came)

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[d.FileUploadResponse]:
        """See the protocol."""
        came = await self.ours.aupload_files([file for file in files if t.absolute(file[0])])
        return t.uploads(files, came)

    def download_files(self, paths: list[str]) -> list[d.FileDownloadResponse]:
        """See the protocol."""
        return t.downloads(paths, self.ours.download_files([path for path in paths if t.absolute(path)]))

    async def adownload_files(self, paths: list[str]) -> list[d.FileDownloadResponse]:
        """See the protocol."""
        return t.downloads(paths, await self.ours.adownload_files([path for path in paths if t.absolute(path)]))


class Deleting(Files):
    """With `delete`."""

    def delete(self, file_path: str) -> d.DeleteResult:
        """See the protocol."""
        return t.delete(self.ours.delete(file_path))

    async def adelete(self, file_path: str) -> d.DeleteResult:
        """See the protocol."""
        return t.delete(await self.ours.adelete(file_path))


class Commands(Deleting):
    """With commands: the class beside this one in the bases says of which kind."""

    @property
    def _shell(self) -> p.SandboxBackendProtocol:
        if not isinstance(self.ours, p.SandboxBackendProtocol):
            raise NotImplementedError(f"{type(self.ours).__name__} cannot run commands")
        return self.ours

    @property
    def id(self) -> str:
        """See the protocol."""
        return self._shell.id

    def execute(self, command: str, *, timeout: int | None = None) -> d.ExecuteResponse:
        """See the protocol. Output that one read can return comes whole; their harness moves what is long to a file."""
        result = self._shell.execute(command, timeout=timeout)
        kept = self.ours.read(result.output_file, 0, WHOLE) if result.output_file else None
        return t.execute(result, kept)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> d.ExecuteResponse:
        """See the protocol."""
        result = await self._shell.aexecute(command, timeout=timeout)
        kept = await self.ours.aread(result.output_file, 0, WHOLE) if result.output_file else None
        return t.execute(result, kept)


class Shell(Commands, d.SandboxBackendProtocol):
    """A backend that can run commands."""


class State(Deleting, theirs.StateBackend):
    """Files in the agent's state: for theirs alone their harness gives the state a place."""


class Disk(Deleting, theirs.FilesystemBackend):  # type: ignore[misc]  # lines around a match are not for tools there
    """Files of this machine: only in theirs do their permissions look where a symbolic link leads."""

    def __init__(self, ours: p.BackendProtocol, disk: FilesystemBackend, overwrite: bool) -> None:
        theirs.FilesystemBackend.__init__(self, disk.root_dir, disk.virtual_mode)
        Files.__init__(self, ours, overwrite)


class LocalShell(Commands, theirs.LocalShellBackend):  # type: ignore[misc]  # as above
    """Files and commands of this machine. Their harness tells the model where the files of routes are on it."""

    def __init__(self, ours: p.BackendProtocol, disk: FilesystemBackend, overwrite: bool) -> None:
        theirs.LocalShellBackend.__init__(self, disk.root_dir, virtual_mode=disk.virtual_mode)
        Files.__init__(self, ours, overwrite)


class Composite(Commands, theirs.CompositeBackend):
    """A composite. Their harness looks at its parts; what it does, it does as ours."""

    def __init__(self, ours: p.BackendProtocol, composite: CompositeBackend, overwrite: bool) -> None:
        default = exported(composite.default, overwrite)
        routes = {prefix: exported(backend, overwrite) for prefix, backend in composite.routes.items()}
        root = composite.artifacts_root
        if root == "/" and isinstance(default, theirs.CompositeBackend) and "/large_tool_results/" not in routes:
            root = default.artifacts_root
        theirs.CompositeBackend.__init__(self, default, routes, artifacts_root=root)
        Files.__init__(self, ours, overwrite)


class Attached(Commands, theirs.CompositeBackend, d.SandboxBackendProtocol):
    """A sandbox. It is a composite without routes, because only theirs can say where the harness may put its files."""

    def __init__(self, ours: p.BackendProtocol, overwrite: bool) -> None:
        theirs.CompositeBackend.__init__(self, Shell(ours, overwrite), {}, artifacts_root=ARTIFACTS_ROOT)
        Files.__init__(self, ours, overwrite)


def exported(ours: p.BackendProtocol, overwrite: bool) -> d.BackendProtocol:
    """`ours` as an object of the class of theirs that their harness has to see."""
    core = _beneath(ours)
    commands = isinstance(ours, p.SandboxBackendProtocol)
    if isinstance(core, CompositeBackend):
        return Composite(ours, core, overwrite)
    if isinstance(core, StateBackend):
        return State(ours, overwrite)
    if isinstance(core, FilesystemBackend):
        return (LocalShell if commands else Disk)(ours, core, overwrite)
    if isinstance(core, Sandbox):
        return Attached(ours, overwrite)
    if commands:
        return Shell(ours, overwrite)
    deletes = type(ours).delete is not p.BackendProtocol.delete
    return (Deleting if deletes else Files)(ours, overwrite)


def _beneath(backend: p.BackendProtocol) -> p.BackendProtocol:
    """What policies are laid over."""
    while isinstance(backend, PolicyBackend):
        backend = backend.inner
    return backend
