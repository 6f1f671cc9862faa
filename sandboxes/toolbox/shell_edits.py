"""Many files changed at once or not at all, without Python: one archive goes in, and one script that runs as a command, so
that it comes to its end, and is known by its id, whatever becomes of whoever started it."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from io import BytesIO
from typing import BinaryIO, Final

from sandboxes.errors import ProtocolError, SandboxError, SandboxTimeout
from sandboxes.sandbox import CommandSpec
from sandboxes.toolbox.applying import applied, state
from sandboxes.toolbox.helper import search, text
from sandboxes.toolbox.shell_command import ShellCommand
from sandboxes.toolbox.shell_files import WINDOW, ShellFiles
from sandboxes.toolbox.shell_wire import SHELL, Channel, refusal, script, unword, word
from sandboxes.workspace.changes import STAGING, Applied, Edit
from sandboxes.workspace.manifest import FOLDER, LINK
from sandboxes.workspace.names import parents, to_text
from sandboxes.workspace.tarwriter import TarWriter

ATTEMPTS: Final = 5
"""How often edits begin again that were killed in the middle; the next attempt puts back what was moved."""
SECONDS: Final = 3600.0
"""How long edits may take: each is a few processes in the sandbox."""
GRACE: Final = 60.0
"""Seconds beyond that until their end must be known."""
ANSWER_CAP: Final = 16 * 1024 * 1024
"""Bytes that the script may print."""


class ShellEdits:
    """Edits below checked, absolute paths. They raise `text.Refused`, or `SandboxError`."""

    def __init__(self, channel: Channel, files: ShellFiles) -> None:
        self._channel = channel
        self._files = files

    async def apply(
        self, root: str, edits: Sequence[Edit], contents: Callable[[str], bytes], call_id: str
    ) -> Applied:
        """See `Sandbox.apply`; the edits are checked and sorted."""
        for attempt in range(ATTEMPTS):
            command = ShellCommand(self._channel, f"{call_id}:apply:{attempt}")
            known = await command.known()
            if not known:
                await self._begin(command, root, edits, contents)
            lines = await self._awaited(command)
            failed = next((line for line in lines or () if line.startswith(b"F ")), None)
            if lines is not None and failed is None:
                return applied([unword(line[2:].decode("ascii", "replace")) for line in lines], edits)
            if failed is not None and not known:
                raise _failure(failed, root)
        raise SandboxError(f"the edits below '{root}' were stopped in the sandbox {ATTEMPTS} times, or failed as often")

    async def _begin(
        self, command: ShellCommand, root: str, edits: Sequence[Edit], contents: Callable[[str], bytes]
    ) -> None:
        name = STAGING + secrets.token_hex(8)
        with tempfile.TemporaryFile() as packed:
            await asyncio.to_thread(_pack, packed, edits, contents)
            packed.seek(0)
            await self._files.upload(f"{root.rstrip('/')}/{name}/tar", _pieces(packed), 0o600, None)
        words = [SHELL, "-c", script("prelude", "edits"), "fanfold", self._channel.state, word(root), name]
        await command.begin(CommandSpec(words, timeout=SECONDS), "/")

    async def _awaited(self, command: ShellCommand) -> list[bytes] | None:
        try:
            async with asyncio.timeout(SECONDS + GRACE):
                return await self._answer(command)
        except TimeoutError as exc:
            raise SandboxTimeout(f"edits in the sandbox did not end within {SECONDS + GRACE:g} s") from exc

    async def _answer(self, command: ShellCommand) -> list[bytes] | None:
        """What the script has answered; None when it did not come to its end."""
        said = bytearray()
        async for chunk in command.output():
            if chunk.stream == "stdout":
                said += chunk.data
            if len(said) > ANSWER_CAP:
                raise ProtocolError("the edits in the sandbox answer without end")
        lines = bytes(said).split(b"\n")
        return lines[:-2] if lines[-2:] == [b"end", b""] else None


def _failure(line: bytes, root: str) -> Exception:
    _, place, message = (*line.split(b" ", 2), b"")[:3]
    path = root if place == b"." else f"{root.rstrip('/')}/{unword(place.decode('ascii', 'replace'))}"
    return refusal(b"E os " + message, path)


def _pack(out: BinaryIO, edits: Sequence[Edit], contents: Callable[[str], bytes]) -> None:
    """Write what `scripts/edits.sh` unpacks. Raises `text.Refused` when a content is not what its edit says."""
    tar = TarWriter(out)
    lines = b"".join(_lines(edits))
    tar.file("edits", len(lines), BytesIO(lines).read)
    tar.folder("new")
    for index, edit in enumerate(edits):
        if edit.after is None or edit.after.mode == FOLDER:
            continue
        content = contents(edit.after.blob)
        if search.blob_id(len(content), [content]) != edit.after.blob:
            raise text.Refused("io_error", f"Error: what came for '{edit.path}' is not what it was to be")
        if edit.after.mode == LINK:
            tar.link(f"new/{index}", to_text(content))
        else:
            tar.file(f"new/{index}", len(content), BytesIO(content).read, executable=edit.after.mode == "100755")
    tar.close()


def _lines(edits: Sequence[Edit]) -> list[bytes]:
    paths = {edit.path for edit in edits}
    filled = {folder for edit in edits if edit.after is not None for folder in parents(edit.path)}
    lines = []
    for index, edit in enumerate(edits):
        sides = [(state(side) or "-").replace(" ", ":") for side in (edit.before, edit.after)]
        depths = "".join(f"{folder.count('/') + 1}," for folder in parents(edit.path) if folder in paths)
        lines.append(f"{index} {word(edit.path)} {' '.join(sides)} ,{depths} {int(edit.path in filled)}\n".encode())
    return lines


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, WINDOW):
        yield piece
