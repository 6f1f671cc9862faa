"""Runs that are ordered from elsewhere: what a task may name there, and where its files are.

A task file on this machine may name files beside it. One that came over the network may not: its files are uploads, and
whoever sends it gives its secrets along.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator, model_validator

from orchestrator.errors import BadInput
from orchestrator.fields import Labels, Priority, Variables, check_inside
from orchestrator.modelfiles import check_sendable
from orchestrator.models import split_model
from orchestrator.runs.threads import Multitask
from orchestrator.spec import InputSpec, RunSpec
from sandboxes.providers.base import Strict

UPLOAD_ID = r"^upl-[0-9a-f]{12}$"
THREAD_ID = r"^thr-[0-9a-f]{12}$"
MAX_SECRETS = 100
MAX_SECRET = 64 * 1024
"""Characters of a secret's value."""
_PLACEHOLDER = "upload"
"""Stands for the archive of a task until it is an upload's id."""


class UploadNames(Strict):
    """Uploads that a task takes the place of its files from."""

    inputs: str | None = Field(None, pattern=UPLOAD_ID)
    """A tar or zip file: the workspace at the start. The task's `inputs` may then only have `exclude`."""
    model: str | None = Field(None, pattern=UPLOAD_ID)
    """The script or cassette of `agent.model`, whose FILE is then not looked at (`scripted:FILE`, `replay:FILE`)."""


class RunOrder(Strict):
    """A run as it is ordered: the body of `POST /v1/runs`."""

    task: RunSpec
    uploads: UploadNames = UploadNames()
    secrets: Variables = Field(default_factory=dict, max_length=MAX_SECRETS, repr=False)
    """Values of the variables that the task's `secrets`, and its model, take."""
    labels: Labels = Field(default_factory=dict)
    """Beside the task's own; of two with the same name this one holds."""
    priority: Priority | None = None
    """Instead of the task's own."""
    thread_id: str | None = Field(None, pattern=THREAD_ID)
    multitask_strategy: Multitask | None = None
    """What happens when another run of the thread goes on. Default: `enqueue`."""

    @model_validator(mode="before")
    @classmethod
    def _with_inputs(cls, value: Any) -> Any:
        """A task whose inputs are an upload needs to name none."""
        if not isinstance(value, dict) or not isinstance(task := value.get("task"), dict):
            return value
        uploads, inputs = value.get("uploads"), task.get("inputs") or {}
        named = isinstance(uploads, dict) and uploads.get("inputs")
        if named and isinstance(inputs, dict) and not set(inputs) - {"exclude"}:
            return {**value, "task": {**task, "inputs": {**inputs, "archive": _PLACEHOLDER}}}
        return value

    @field_validator("secrets")
    @classmethod
    def _bounded(cls, value: dict[str, str]) -> dict[str, str]:
        if any(len(one) > MAX_SECRET for one in value.values()):
            raise ValueError(f"a secret is at most {MAX_SECRET:,} characters")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> RunOrder:
        if self.multitask_strategy is not None and self.thread_id is None:
            raise ValueError("multitask_strategy is for a run of a thread: give its thread_id, or leave it out")
        return self

    def resolved(self, *, git: bool) -> RunSpec:
        """The task with its files named as uploads: relative to the folder of the tenant's uploads.

        Raises `BadInput` for a task that names any other file, or a repository when `git` is not allowed.
        """
        check_sendable(self.task)
        update: dict[str, Any] = {"inputs": _inputs(self, git=git)}
        if self.task.agent:
            update["agent"] = self.task.agent.model_copy(update={"model": _model(self, self.task.agent.model)})
        elif self.uploads.model:
            raise BadInput("uploads.model: the task has no agent of its own, so there is no model to take it")
        return self.task.model_copy(update=update)


def _inputs(order: RunOrder, *, git: bool) -> InputSpec | None:
    inputs, upload = order.task.inputs, order.uploads.inputs
    if upload is not None:
        if inputs is None or inputs.archive != _PLACEHOLDER:
            raise BadInput("task.inputs: with uploads.inputs it may only have 'exclude': the upload is the input")
        return inputs.model_copy(update={"archive": upload})
    if inputs is None:
        return None
    if inputs.git is None:
        kind = "path" if inputs.path is not None else "archive"
        raise BadInput(f"task.inputs.{kind}: a task that comes over the network names no files: upload them (uploads.inputs)")
    _check_git(inputs.git.url, allowed=git)
    return inputs


def _check_git(url: str, *, allowed: bool) -> None:
    from orchestrator.gitsource import remote_of  # it imports a Git library

    if remote_of(url) is None:
        raise BadInput("task.inputs.git.url: a task that comes over the network names no files: give an https:// address")
    if not allowed:
        raise BadInput(
            "task.inputs.git: this installation fetches no repositories for tasks that come over the network"
            " (FANFOLD_API_GIT): upload an archive of it (uploads.inputs)"
        )


def _model(order: RunOrder, model: str) -> str:
    """The model, its file an upload."""
    kind, file, inner = split_model(model)
    upload = order.uploads.model
    if kind == "record":
        if split_model(inner)[0] and not upload:
            raise BadInput(f"task.agent.model: upload the file of '{inner}' and give its id as uploads.model")
        try:
            check_inside(file)
        except ValueError as exc:
            raise BadInput(f"task.agent.model: the cassette is an artifact: {exc}") from exc
        return f"record:{file}={_model(order, inner)}" if upload else model
    if not kind:
        if upload:
            raise BadInput(f"uploads.model: the model '{model}' has no file: leave it out, or write scripted:FILE, replay:FILE")
        return model
    if not upload:
        raise BadInput(f"task.agent.model: upload the file of '{kind}:{file}' and give its id as uploads.model")
    return f"{kind}:{upload}"
