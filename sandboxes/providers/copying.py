"""Forks and snapshots by copying: what every provider can do with its five methods.

The working directory is packed once, by `tar` in the parent, and unpacked in all children while it is packed: nothing is held
but the part that is under way. Permissions, executables, links, empty folders and pipes are kept, and any name and content.
What cannot be read in the parent is an error. The parent goes on meanwhile: what it writes may be in the copy or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sandboxes.errors import FanfoldSandboxError, SandboxError, SandboxTimeout
from sandboxes.sandbox import Command, CommandSpec, Sandbox

if TYPE_CHECKING:
    from sandboxes.providers.base import Forked, SandboxHandle, SandboxProvider, SandboxSpec, SnapshotHandle

PART: Final = 8 * 1024 * 1024
"""Bytes that are under way at once."""
PART_SECONDS: Final = 120.0
"""How long a child may take for one part."""
SNAPSHOT_SECONDS: Final = 30 * 86400.0
"""Lifetime of a sandbox that is kept as a snapshot."""
SNAPSHOT_MARK: Final[Mapping[str, str]] = {"fanfold.snapshot": "copy"}
"""Label of a sandbox that is kept as a snapshot."""
SAID: Final = 2000
"""Characters of a complaint that are told."""

_PACK: Final = f"""
place=$1 part=$2
shift 2
exec 3<&0
trap 'rm -f "$part" "$part.said" "$part.code"' EXIT
{{
    LC_ALL=C tar -cf - -C "$place" "$@" . 2>"$part.said" </dev/null
    echo $? >"$part.code"
}} | while :; do
    head -c {PART} >"$part"
    [ -s "$part" ] || break
    echo part
    read -r go <&3 || break
done
cat "$part.said" >&2
exit "$(cat "$part.code")"
"""
"""Packs a folder into one part after the other; the next one is made when a line comes in."""
_UNPACK: Final = """
cd "$1" || exit
shift
find . -mindepth 1 -maxdepth 1 "$@" -exec rm -rf {} + && LC_ALL=C exec tar -xpf -
"""
"""Fills a folder, in which an image may have left something, with what comes in. Arguments: what not to remove."""
_HARMLESS: Final = re.compile(r"tar: .*: (file changed as we read it|File removed before we read it|socket ignored)")


async def settled(makings: Sequence[Coroutine[Any, Any, SandboxHandle]], provider: SandboxProvider) -> list[Forked]:
    """Make sandboxes at once: for each its handle, or our error. For any other error, or when cancelled, none is left."""
    tasks = [asyncio.ensure_future(making) for making in makings]
    try:
        await asyncio.wait(tasks)
        return [_outcome(task) for task in tasks]
    except BaseException:
        for task in tasks:
            task.cancel()
        made = await asyncio.gather(*tasks, return_exceptions=True)
        ending = [provider.destroy(one) for one in made if not isinstance(one, BaseException)]
        await asyncio.gather(*ending, return_exceptions=True)
        raise


def _outcome(task: asyncio.Future[SandboxHandle]) -> Forked:
    try:
        return task.result()
    except FanfoldSandboxError as exc:
        return exc


async def forked(
    provider: SandboxProvider, parent: SandboxHandle, spec: SandboxSpec, labels: Sequence[Mapping[str, str]]
) -> list[Forked]:
    """See `SandboxProvider.fork`: children with these labels and a copy of the parent's working directory."""
    made: list[Forked] = []
    handles: list[SandboxHandle] = []
    try:
        async with await provider.attach(parent) as source:
            made = await settled([provider.create(spec, one) for one in labels], provider)
            handles = [one for one in made if not isinstance(one, FanfoldSandboxError)]
            errors = await _fill(provider, source, handles)
        await asyncio.gather(*(provider.destroy(handle) for handle in handles if handle.id in errors))
    except BaseException:
        await asyncio.gather(*(provider.destroy(handle) for handle in handles))
        raise
    return [one if isinstance(one, FanfoldSandboxError) else errors.get(one.id, one) for one in made]


async def kept(provider: SandboxProvider, handle: SandboxHandle, labels: Mapping[str, str]) -> SandboxHandle:
    """A sandbox with nothing but the files of another one, which nobody is going to use."""
    changes = {"lifetime": SNAPSHOT_SECONDS, "idle_timeout": None, "network": "none", "allowed_hosts": (), "mounts": ()}
    spec = handle.told_spec.model_copy(update=changes)
    return only(await forked(provider, handle, spec, [{**labels, **SNAPSHOT_MARK}]))


async def restored(
    provider: SandboxProvider, snapshot: SnapshotHandle, spec: SandboxSpec, labels: Mapping[str, str] | None
) -> SandboxHandle:
    """A sandbox with the files of a snapshot that `kept` made."""
    from sandboxes.providers.base import SandboxHandle

    return only(await forked(provider, SandboxHandle(**snapshot.to_json()), spec, [labels or {}]))


def only(made: Sequence[Forked]) -> SandboxHandle:
    """The one child. Raises why there is none."""
    [one] = made
    if isinstance(one, FanfoldSandboxError):
        raise one
    return one


class _Child:
    """A child that is being filled. What goes wrong is its own, and kept in `error`."""

    def __init__(self, handle: SandboxHandle) -> None:
        self.id = handle.id
        self.error: FanfoldSandboxError | None = None
        self._handle = handle
        self._command: Command

    async def open(self, provider: SandboxProvider, opened: contextlib.AsyncExitStack) -> None:
        """Attach to it, and begin to unpack; `opened` closes the connection."""

        async def begin() -> None:
            sandbox = await opened.enter_async_context(await provider.attach(self._handle))
            below = sandbox.closed_below(sandbox.workdir)
            kept = [word for path in below for word in ("!", "-name", _literally(path.partition("/")[0]))]
            unpack = CommandSpec(["sh", "-c", _UNPACK, "sh", sandbox.workdir, *kept], stdin=True, merge=True)
            self._command = await sandbox.start(unpack)

        await self._attempt(begin())

    async def take(self, part: bytes) -> None:
        """Unpack a part; nothing when something went wrong before."""
        if self.error is None:
            await self._attempt(self._take(part))

    async def _take(self, part: bytes) -> None:
        try:
            await self._command.send(part)
        except OSError:
            await self._end()  # it has ended too early, and says why
            raise SandboxError(f"sandbox {self.id} did not take all of its files") from None

    async def close(self) -> None:
        """All of it was sent: wait until it is full."""
        if self.error is None:
            await self._attempt(self._finish())

    async def _finish(self) -> None:
        with contextlib.suppress(OSError):
            await self._command.send(b"", eof=True)
        await self._end()

    async def _end(self) -> None:
        said = b"".join([chunk.data async for chunk in self._command.output()]).decode(errors="replace")
        if (code := (await self._command.wait()).exit_code) != 0:
            raise SandboxError(f"sandbox {self.id} could not be filled: tar ended with {code}: {said[-SAID:]}")

    async def _attempt(self, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(PART_SECONDS):
                await work
        except TimeoutError:
            self.error = SandboxTimeout(f"sandbox {self.id} did not take its files within {PART_SECONDS:g} s")
        except FanfoldSandboxError as exc:
            self.error = exc


async def _fill(
    provider: SandboxProvider, source: Sandbox, handles: Sequence[SandboxHandle]
) -> dict[str, FanfoldSandboxError]:
    """Bring the working directory of `source` into all of these; the errors of those that failed, by id."""
    children = [_Child(handle) for handle in handles]
    async with contextlib.AsyncExitStack() as opened, contextlib.aclosing(_packed(source)) as parts:
        await asyncio.gather(*(child.open(provider, opened) for child in children))
        while not all(child.error for child in children) and (part := await anext(parts, None)) is not None:
            await asyncio.gather(*(child.take(part) for child in children))
        await asyncio.gather(*(child.close() for child in children))
    return {child.id: child.error for child in children if child.error is not None}


async def _packed(source: Sandbox) -> AsyncGenerator[bytes, None]:
    """The working directory as `tar`, in parts. Raises `SandboxError` when not all of it could be read."""
    place = f"/tmp/.fanfold-{secrets.token_hex(8)}"  # noqa: S108 - a path in the sandbox
    left_out = [f"--exclude=./{_literally(path)}" for path in source.closed_below(source.workdir)]
    packing = await source.start(CommandSpec(["sh", "-c", _PACK, "sh", source.workdir, place, *left_out], stdin=True))
    said = b""
    try:
        async for chunk in packing.output():
            if chunk.stream == "stderr":
                said = (said + chunk.data)[-SAID:]
                continue
            for _ in chunk.data.splitlines():
                yield b"".join([piece async for piece in source.download_stream(place)])
                await packing.send(b"\n")
        code = (await packing.wait()).exit_code
    finally:
        await packing.kill()
    complaints = [line for line in said.decode(errors="replace").splitlines() if not _HARMLESS.fullmatch(line)]
    if code > 1 or (code == 1 and complaints):
        raise SandboxError(f"the files of the sandbox cannot be copied: tar ended with {code}: {' '.join(complaints)}")


def _literally(path: str) -> str:
    """A pattern that this name alone matches."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", path)
