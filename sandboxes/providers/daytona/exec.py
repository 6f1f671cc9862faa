"""Commands in a sandbox without Python, each by one request: `process/execute`, which has neither stdin nor binary output."""

from __future__ import annotations

import base64
import binascii
import math
import re
import secrets
import shlex
from collections.abc import Sequence
from typing import Final

from daytona import AsyncDaytona, AsyncSandbox, FileUpload

from sandboxes.errors import ProtocolError, SandboxError, SandboxGone
from sandboxes.providers.daytona.account import Account
from sandboxes.providers.daytona.live import own_folder, run
from sandboxes.toolbox.shell_exec import ExecResult

INLINE: Final = 32 * 1024
"""Bytes of stdin that go with the request; longer ones are uploaded before it."""
LINES: Final = 77 * 4096
"""Characters of whole lines of base64, which can be taken apart by themselves."""
_TOLD: Final = re.compile(r"(\d{1,3})\n\.\n([A-Za-z0-9+/=\n]{0,1000})\.\n")


class PlatformExec:
    """See `sandboxes.toolbox.shell_exec.Exec`."""

    def __init__(self, account: Account, sandbox: AsyncSandbox, sandbox_id: str) -> None:
        self._account = account
        self._sandbox = sandbox
        self._own = own_folder(sandbox_id)

    async def __call__(self, argv: Sequence[str], stdin: bytes = b"", *, deadline: float, cap: int) -> ExecResult:
        """See `Exec`. A script may have been carried out though its answer was lost: nothing is repeated."""
        given = await self._given(stdin, deadline)
        script = base64.b64encode(f"exec {shlex.join(argv)}".encode()).decode()
        command = f"/bin/sh {self._own}/run.sh {cap} {script} {given}"
        answer = await run(self._account, self._sandbox, command, deadline=deadline)
        return _result(answer.result, answer.exit_code, cap)

    async def _given(self, stdin: bytes, deadline: float) -> str:
        if len(stdin) <= INLINE:
            return base64.b64encode(stdin).decode() or "-"
        path = f"{self._own}/in-{secrets.token_hex(8)}"

        async def upload(_: AsyncDaytona) -> None:
            await self._sandbox.fs.upload_files([FileUpload(stdin, path)], timeout=math.ceil(deadline))

        await self._account.run("upload to a sandbox", upload, deadline=deadline)
        return f"@{path}"


def _result(told: str, code: int, cap: int) -> ExecResult:
    """What `run.sh` has printed. It may be long: there is never a second copy of all of it."""
    if told == "ended\n":
        raise SandboxGone("the sandbox's lifetime or its idle limit was over")
    match = _TOLD.match(told)
    if match is None:
        raise SandboxError(f"a script in the sandbox ended with {code} and said: {told[-300:]}")
    said, at = match[2], match.end()
    if (len(told) - at) * 3 // 4 > cap + len(told) // 64:
        raise ProtocolError(f"the sandbox sent more than the {cap} bytes that it was asked for")
    try:
        stderr = binascii.a2b_base64(said)
        stdout = bytearray()
        for start in range(at, len(told), LINES):
            stdout += binascii.a2b_base64(told[start : start + LINES])
    except binascii.Error as exc:
        raise ProtocolError(f"a script in the sandbox answered with what is no base64: {exc}") from exc
    if len(stdout) > cap:
        raise ProtocolError(f"the sandbox sent more than the {cap} bytes that it was asked for")
    return ExecResult(int(match[1]), bytes(stdout), stderr.decode("utf-8", "replace"))

