"""Options that several commands share, and how a command is added to the application."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.errors import BadInput

HELP_OPTIONS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class Output(StrEnum):
    """What a command writes to stdout."""

    text = "text"
    json = "json"


class RunOutput(StrEnum):
    """What a command that follows a run writes to stdout."""

    text = "text"
    json = "json"
    jsonl = "jsonl"


Provider = Annotated[str | None, typer.Option("--provider", metavar="NAME", help="Where the sandbox runs: local, docker, ...")]
Timeout = Annotated[str | None, typer.Option("--timeout", metavar="TIME", help="For the whole run: 90s, 10m, 1.5h.")]
Env = Annotated[
    list[str] | None, typer.Option("--env", "-e", metavar="K=V", help="Environment variable of the sandbox. Repeatable.")
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or a unique beginning of it.")]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="What stdout gets.")]


def command(app: typer.Typer, function: Callable[..., int], *, passes_arguments: bool = False) -> None:
    """Add a command. With `passes_arguments` what follows its first argument is left alone, options too."""
    settings = dict(HELP_OPTIONS)
    if passes_arguments:
        settings |= {"allow_interspersed_args": False}
    app.command(context_settings=settings)(function)


def variables(values: list[str] | None) -> dict[str, str]:
    """`["A=1"]` as `{"A": "1"}`. Raises `BadInput`."""
    found: dict[str, str] = {}
    for value in values or []:
        name, equals, content = value.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise BadInput(f"--env {value!r}: write NAME=VALUE; a value of your own environment is not taken over by its name")
        found[name] = content
    return found


def folder(option: str, path: Path) -> Path:
    """The folder, absolute. Raises `BadInput` when it is none."""
    if not path.is_dir():
        raise BadInput(f"{option} {path}: there is no such folder")
    return path.resolve()
