"""Commands in a sandbox without Python, each by one request: `process/execute`, which has neither stdin nor binary output."""

from __future__ import annotations

import base64
import binascii
import contextlib
import math
import secrets
import shlex
from collections.abc import Sequence
from typing import Final

from daytona import AsyncDaytona, AsyncSandbox, ExecuteResponse, FileUpload

from sandboxes.errors import ProtocolError, SandboxError, SandboxGone
from sandboxes.providers.daytona.account import Account
from sandboxes.providers.daytona.live import own_folder, run
from sandboxes.toolbox.shell_exec import ExecResult

INLINE: Final = 32 * 1024
"""Bytes of stdin that go with the request; longer ones are uploaded before it."""


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
        return self._result(answer, cap)

    async def _given(self, stdin: bytes, deadline: float) -> str:
        if len(stdin) <= INLINE:
            return base64.b64encode(stdin).decode() or "-"
        path = f"{self._own}/in-{secrets.token_hex(8)}"

        async def upload(_: AsyncDaytona) -> None:
            await self._sandbox.fs.upload_files([FileUpload(stdin, path)], timeout=math.ceil(deadline))

        await self._account.run("upload to a sandbox", upload, deadline=deadline)
        return f"@{path}"

    def _result(self, answer: ExecuteResponse, cap: int) -> ExecResult:
        lines = answer.result.splitlines()
        if lines[:1] == ["ended"]:
            raise SandboxGone("the sandbox's lifetime or its idle limit was over")
        with contextlib.suppress(ValueError, IndexError, binascii.Error):
            stdout, stderr = (base64.b64decode(line, validate=True) for line in lines[:2])
            if len(stdout) > cap:
                raise ProtocolError(f"the sandbox sent more than the {cap} bytes that it was asked for")
            return ExecResult(int(lines[2]), stdout, stderr.decode("utf-8", "replace"))
        raise SandboxError(f"a script in the sandbox ended with {answer.exit_code} and said: {answer.result[-300:]}")
