"""Sandboxes of the tenant's runs: what there are, ending and keeping them, and looking into them."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from orchestrator.api.auth import Executes, Reads, Writes
from orchestrator.fields import MAX_TEXT
from orchestrator.runs.sandboxes import SandboxInfo, SandboxState
from orchestrator.sandboxspec import MAX_KEEP
from orchestrator.service.looking import DEFAULT_EXEC_TIMEOUT, MAX_EXEC_TIMEOUT
from sandboxes.providers.base import Strict

router = APIRouter(tags=["sandboxes"])

SandboxId = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


class SandboxModel(BaseModel):
    """A sandbox of a run."""

    id: str
    provider: str
    run_id: str
    attempt: int | None
    """The attempt that it was made for."""
    created_at: datetime | None
    expires_at: datetime | None
    """When it ends by itself, whoever keeps it."""
    state: SandboxState
    """`owned`: its run goes on. `kept`: its run does not need it, and somebody keeps it. `orphan`: it is about to be ended."""
    kept_until: datetime | None
    """Until when it stays after its run."""

    @classmethod
    def of(cls, info: SandboxInfo) -> SandboxModel:
        """From the service's."""
        return cls(**vars(info))


class SandboxList(BaseModel):
    """The sandboxes that the server reaches, the newest first."""

    items: list[SandboxModel]
    next_cursor: str | None = None
    """Always null: all of them are told at once."""
    unreachable: dict[str, str]
    """Providers that the server could not ask, and why: their sandboxes are missing here."""


class KeepBody(Strict):
    """For how long."""

    seconds: float = Field(gt=0, le=MAX_KEEP, strict=True)


class ExecBody(Strict):
    """A shell command."""

    command: str = Field(min_length=1, max_length=MAX_TEXT, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")
    timeout: float = Field(DEFAULT_EXEC_TIMEOUT, gt=0, le=MAX_EXEC_TIMEOUT, strict=True)
    """Seconds, after which its whole process tree is killed."""


class ExecModel(BaseModel):
    """How a command ended, and what it printed; secrets of the run are `***`."""

    exit_code: int
    """124 after a timeout."""
    stdout: str
    stderr: str
    timed_out: bool
    truncated: bool
    """Whether it printed more than the 1 MiB of each stream that is told."""


@router.get("/sandboxes")
def list_sandboxes(caller: Reads) -> SandboxList:
    """The sandboxes of the tenant's runs, as far as the server reaches their providers."""
    found = caller.service.sandboxes.list()
    return SandboxList(items=[SandboxModel.of(info) for info in found.items], unreachable=dict(found.unreachable))


@router.get("/sandboxes/{sandbox_id}")
def get_sandbox(caller: Reads, sandbox_id: SandboxId) -> SandboxModel:
    """One sandbox."""
    return SandboxModel.of(caller.service.sandboxes.get(sandbox_id))


@router.delete("/sandboxes/{sandbox_id}", status_code=HTTPStatus.NO_CONTENT)
def destroy_sandbox(
    caller: Writes,
    sandbox_id: SandboxId,
    force: Annotated[bool, Query(description="Also while its run goes on, which loses it then.")] = False,
) -> None:
    """End a sandbox."""
    caller.service.sandboxes.destroy(sandbox_id, force=force)


@router.post("/sandboxes/{sandbox_id}/keep")
def keep_sandbox(caller: Writes, sandbox_id: SandboxId, body: KeepBody) -> SandboxModel:
    """Have a sandbox stay for so long from now, also when its run has ended. The end of its lifetime ends it all the same."""
    return SandboxModel.of(caller.service.sandboxes.keep(sandbox_id, body.seconds))


@router.post("/sandboxes/{sandbox_id}/exec")
async def exec_in_sandbox(caller: Executes, sandbox_id: SandboxId, body: ExecBody) -> ExecModel:
    """Run a shell command in a sandbox, and wait for its end."""
    done = await caller.service.sandboxes.aexec(sandbox_id, body.command, timeout=body.timeout, by=caller.key_id)
    return ExecModel(**{name: getattr(done, name) for name in ExecModel.model_fields})
