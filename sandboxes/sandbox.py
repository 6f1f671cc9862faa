"""An attached sandbox: the backend protocol, and what the orchestrator needs beyond it.

`SandboxProvider.attach` returns one. The protocol's methods are for the agent's tools; `start` and `command` give streaming
commands with stdin that another process can re-attach to, `upload_stream` and `download_stream` move files of any size
without holding them in memory, `download_small` fetches many small ones at once, `manifest` and `changes` tell what is in the
workspace without moving it, and `apply` changes many of its files at once or none.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from sandboxes.portal import AsyncBackend
from sandboxes.protocol import DEFAULT_READ_LIMIT, ReadResult
from sandboxes.workspace.changes import Applied as Applied
from sandboxes.workspace.changes import Changed as Changed
from sandboxes.workspace.changes import Edit as Edit
from sandboxes.workspace.changes import difference
from sandboxes.workspace.manifest import FileEntry as FileEntry

if TYPE_CHECKING:
    from sandboxes.providers.base import Mount

Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True)
class CommandSpec:
    """A command to start in a sandbox."""

    command: str | Sequence[str]
    """A string is run by `sh -c`; a sequence is an argv."""
    cwd: str | None = None
    """Default: the sandbox's working directory."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the sandbox's environment."""
    timeout: float | None = None
    """Seconds, after which the whole process tree is killed."""
    stdin: bool = False
    """Keep stdin open for `Command.send`; otherwise it is empty."""
    merge: bool = False
    """Send stderr where stdout goes, so that the order of the two is kept."""


@dataclass(frozen=True)
class OutputChunk:
    """A piece of a command's output; `offset` is its place (bytes) in its stream."""

    stream: Stream
    offset: int
    data: bytes


@dataclass(frozen=True)
class CommandResult:
    """How a command ended. `exit_code` is 124 after a timeout, 128 + N after signal N."""

    exit_code: int
    timed_out: bool = False
    lost: int = 0
    """Bytes of output that were not kept, because the spool in the sandbox was full."""


class Command(Protocol):
    """A command that runs, or ran, in a sandbox. It lives there; this object may die and be made again by its id."""

    call_id: str

    def output(self, *, stdout: int = 0, stderr: int = 0) -> AsyncIterator[OutputChunk]:
        """What it prints, as it comes, until it ends; from the given offsets (bytes), so that nothing repeats."""
        ...

    async def wait(self) -> CommandResult:
        """Wait until it has ended. Its background children are not waited for."""
        ...

    async def send(self, data: bytes, *, eof: bool = False) -> None:
        """Write to its stdin; returns when it has been written. `eof` closes stdin afterwards."""
        ...

    async def kill(self) -> None:
        """Kill its whole process tree. Killing what has ended does nothing."""
        ...


class Sandbox(AsyncBackend):
    """An attached sandbox. Close it (`aclose`, or `async with`) when done: that ends the connection, not the sandbox."""

    def __init__(self) -> None:
        self._home = asyncio.get_running_loop()
        self.leaves_commands = False
        """Whether a command goes on when the call that waits for it is cancelled: somebody else is going to wait for it."""
        self.mounts: tuple[Mount, ...] = ()
        """What its provider closed when it was made, later ones over earlier ones: it holds for commands and tools alike."""

    @property
    def home(self) -> asyncio.AbstractEventLoop:
        """The loop that attached it."""
        return self._home

    @property
    @abstractmethod
    def workdir(self) -> str:
        """The working directory: absolute, where commands start and relative paths begin."""

    @abstractmethod
    async def aread(
        self, file_path: str, offset: int = 0, limit: int = DEFAULT_READ_LIMIT, *, byte_offset: int | None = None
    ) -> ReadResult:
        """See the protocol. With `byte_offset` the window starts at that byte, whatever line it is in."""

    @abstractmethod
    async def start(self, spec: CommandSpec, *, call_id: str | None = None) -> Command:
        """Start a command. A `call_id` that is known re-attaches to that command instead of starting another."""

    @abstractmethod
    async def command(self, call_id: str) -> Command | None:
        """The command that was started under this id, running or ended; None when there was none."""

    @abstractmethod
    def download_stream(self, path: str) -> AsyncIterator[bytes]:
        """The content of a file in pieces of at most 1 MiB. Raises `FileNotFoundError` or another `OSError`."""

    async def download_small(self, files: Sequence[tuple[str, int]]) -> list[bytes | OSError | None]:
        """The contents of many small files, in order, each of which may have so many bytes. They are held in memory.

        In the place of a file is an `OSError`, where `download_stream` would raise one, and None, where it has more bytes.
        """
        return [await self._small(path, size) for path, size in files]

    async def _small(self, path: str, size: int) -> bytes | OSError | None:
        content = bytearray()
        try:
            async for piece in self.download_stream(path):
                content += piece
                if len(content) > size:
                    return None
        except TimeoutError:
            raise
        except OSError as exc:
            return exc
        return bytes(content)

    @abstractmethod
    async def upload_stream(self, path: str, content: AsyncIterable[bytes], *, mode: int = 0o644) -> None:
        """Write a file from pieces, overwriting it at once when the last has arrived. Raises `OSError`."""

    @abstractmethod
    async def manifest(self, root: str, *, exclude: Sequence[str] = (), folders: bool = False) -> list[FileEntry]:
        """What is below `root`: files and links, sorted by path. `exclude` are names (of files or folders, at any depth).

        Sockets, devices and pipes are left out; folders come, with `folders`, where nothing in them is told of. What it says
        comes from the sandbox and is not to be trusted: paths are checked, content is hashed again by whoever fetches it.
        """

    async def changes(
        self, root: str, base: Mapping[str, FileEntry], *, exclude: Sequence[str] = (), folders: bool = False
    ) -> Changed:
        """What is below `root` and not as in `base`: what `manifest`, asked in the same way, told of the sandbox that this one
        is a fork of, before it was forked, or of this one since.

        Where the working directory is an overlay, only what was written is looked at. What lies in a mount is never changed.
        Raises `PatchRefused` when the sandbox tells what cannot be. See `manifest`.
        """
        now = await self.manifest(root, exclude=exclude, folders=folders)
        return await asyncio.to_thread(difference, base, now, folders=folders, closed=self.closed_below(root))

    @abstractmethod
    async def apply(
        self, root: str, edits: Sequence[Edit], contents: Callable[[str], bytes], *, call_id: str
    ) -> Applied:
        """Change all of these paths below `root`, or none. `contents` gives a blob that an edit brings, by its id.

        A path that is as it is to be counts as changed. One that is neither so nor as it was before is refused, and so is one
        that leads through a link; then nothing is changed. It goes to its end in the sandbox, whatever becomes of the caller,
        and a `call_id` that is known gives the recorded answer. Raises `ValueError` for edits that make no sense, and an
        `OSError` that names the path when the sandbox's file system refuses one: everything is as it was then, and the same
        `call_id` may try again.
        """

    def closed_below(self, root: str) -> list[str]:
        """Paths of mounts below a folder, relative to it: they are no part of it."""
        top = root.rstrip("/") + "/"
        return [mount.target.removeprefix(top) for mount in self.mounts if mount.target.startswith(top)]

    @abstractmethod
    async def aclose(self) -> None:
        """End the connection. The sandbox and its commands go on."""

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
