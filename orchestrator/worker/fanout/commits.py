"""Commits that a child made in the workspace's repository: nothing below `.git` is merged as files, they come over as refs.

Git itself packs them in the child's sandbox and takes them in the parent's. Where a sandbox has no `git`, there are none.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import AsyncIterator, Sequence

from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.family import COMMITS
from orchestrator.runs.models import Artifact
from orchestrator.worker.fanout.commands import run_command
from sandboxes.sandbox import Sandbox

CAP = 512 * 1024**2
"""Bytes of one child's commits."""
TIMEOUT = 120.0
"""Seconds for one command of Git."""
REFS_CAP = 10_000
"""Characters of the ids of commits that are known before."""


async def known_commits(sandbox: Sandbox) -> tuple[str, ...]:
    """The commits at the ends of the branches of the workspace's repository, and where it stands; nothing without one."""
    listed = "test -e .git && { git rev-parse --verify -q HEAD; git for-each-ref --format='%(objectname)' refs/heads; }"
    told = await run_command(sandbox, f"{listed} 2>/dev/null | sort -u", TIMEOUT)
    ids = told.output[:REFS_CAP].split()
    return tuple(one for one in ids if len(one) in (40, 64) and set(one) <= set("0123456789abcdef"))


async def packed_commits(sandbox: Sandbox, known: Sequence[str], artifacts: ArtifactStore, run_id: str) -> Artifact | None:
    """Store what was committed beyond `known`; what to record. None when that is nothing."""
    now = await known_commits(sandbox)
    if not now or set(now) <= set(known):
        return None
    bundle = f"/tmp/fanfold-{secrets.token_hex(6)}.bundle"  # noqa: S108 - a path in the sandbox
    but = f" --not {' '.join(known)}" if known else ""
    made = await run_command(sandbox, f"git bundle create {bundle} HEAD --branches{but}", TIMEOUT)
    if made.exit_code != 0:
        return None
    return await artifacts.keep(run_id, COMMITS, sandbox.download_stream(bundle), limit=CAP)


async def bring_commits(sandbox: Sandbox, name: str, bundle: AsyncIterator[bytes]) -> str | None:
    """Have a child's commits in the workspace's repository, below `refs/fanfold/NAME/`; why not, when that cannot be."""
    place = f"/tmp/fanfold-{secrets.token_hex(6)}.bundle"  # noqa: S108 - a path in the sandbox
    await sandbox.upload_stream(place, bundle)
    refs = shlex.quote(f"+refs/heads/*:refs/fanfold/{name}/*")
    head = shlex.quote(f"+HEAD:refs/fanfold/{name}/HEAD")
    fetched = await run_command(sandbox, f"git fetch -q --no-tags {place} {refs} {head}; c=$?; rm -f {place}; exit $c", TIMEOUT)
    return None if fetched.exit_code == 0 else fetched.output[-500:]
