"""Making a sandbox of the platform one of ours: our files are brought in, and our helper is started."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from daytona import AsyncDaytona, AsyncSandbox, FileUpload

from sandboxes.errors import SandboxError
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.daytona.account import Account
from sandboxes.providers.daytona.live import own_folder, run
from sandboxes.toolbox.bundle import bundle

BOOT_SECONDS: Final = 60.0
"""How long our helper may take to answer in a new sandbox."""
_HERE: Final = Path(__file__).parent
_SCRIPTS: Final = ("boot.sh", "run.sh", "ward.sh")


def connect_command(sandbox_id: str) -> str:
    """The command that bridges to the helper."""
    own = own_folder(sandbox_id)
    return f"python3 -I -S {own}/toolbox.pyz connect --socket {own}/state/toolbox.sock --wait 2"


@dataclass(frozen=True)
class Boot:
    """What the boot script is told."""

    spec: SandboxSpec
    copied: bool = False
    """Whether these files are another sandbox's, as in a fork."""

    def command(self, sandbox_id: str) -> str:
        """The command line; seconds are rounded up: `sh` counts in whole ones."""
        spec = self.spec
        numbers = (math.ceil(spec.lifetime), math.ceil(spec.idle_timeout or 0), spec.resources.pids or 0)
        words = [spec.workdir, *map(str, numbers), spec.system, str(int(self.copied))]
        return shlex.join(["/bin/sh", f"{own_folder(sandbox_id)}/boot.sh", *words])


async def install(account: Account, sandbox: AsyncSandbox, sandbox_id: str, what: Boot) -> str:
    """Bring our files into a sandbox and boot it; the transport that it needs: two requests. Raises `SandboxError`."""
    own = own_folder(sandbox_id)
    files = [FileUpload(bundle(), f"{own}/toolbox.pyz")]
    files += [FileUpload((_HERE / name).read_bytes(), f"{own}/{name}") for name in _SCRIPTS]

    async def upload(_: AsyncDaytona) -> None:
        await sandbox.fs.upload_files(files, timeout=math.ceil(BOOT_SECONDS))

    await account.run("bring files into a sandbox", upload, deadline=BOOT_SECONDS)
    answer = await run(account, sandbox, what.command(sandbox_id), deadline=BOOT_SECONDS, env=dict(what.spec.env))
    said = answer.result.strip()
    if said not in ("helper", "sh"):
        raise SandboxError(f"the sandbox did not start: {said.removeprefix('failed: ')[-500:] or answer.exit_code}")
    return said
