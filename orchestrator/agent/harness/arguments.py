"""The arguments of the file tools, as a model is told of them and as they are checked."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.agent.render import clip
from sandboxes.protocol import DEFAULT_READ_LIMIT

EXECUTE_TIMEOUT = 300
"""Seconds that a command may take when the model does not say."""
EXECUTE_TIMEOUT_MAX = 24 * 3600
"""Seconds."""
CONTEXT_MAX = 50
"""Lines around a match."""


class Arguments(BaseModel):
    """Arguments of a tool. What is not declared is refused, so that a model learns of its slip."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def schema_for_model(cls) -> dict[str, Any]:
        """The JSON schema that a model is shown. It is the caller's own."""
        return copy.deepcopy(_shown(cls))


@cache
def _shown(arguments: type[Arguments]) -> dict[str, Any]:
    """Made once for each tool: it takes a millisecond, and an agent has sixteen of them."""
    schema = arguments.model_json_schema()
    shown = {name: {key: part for key, part in field.items() if key != "title"} for name, field in _fields(schema)}
    return {"type": "object", "properties": shown, "required": schema.get("required", []), "additionalProperties": False}


def _fields(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return list(schema.get("properties", {}).items())


class Ls(Arguments):
    """Of `ls`."""

    path: str = Field(".", description="The directory.")


class ReadFile(Arguments):
    """Of `read_file`."""

    file_path: str = Field(description="The file.")
    offset: int = Field(0, ge=0, description="Lines to skip: 0 begins with the first line.")
    limit: int = Field(DEFAULT_READ_LIMIT, ge=1, description="Lines to read.")
    byte_offset: int | None = Field(
        None, ge=0, description="Begin at this byte instead of a line, to read on inside a very long line."
    )


class WriteFile(Arguments):
    """Of `write_file`."""

    file_path: str = Field(description="The new file. Missing parent directories are made.")
    content: str = Field(description="The whole text of the file.")


class EditFile(Arguments):
    """Of `edit_file`."""

    file_path: str = Field(description="The file.")
    old_string: str = Field(description="The exact text to replace, with its indentation, without line numbers.")
    new_string: str = Field(description="The text to put in its place.")
    replace_all: bool = Field(False, description="Replace every occurrence. Otherwise old_string must occur exactly once.")


class Delete(Arguments):
    """Of `delete`."""

    file_path: str = Field(description="The file, or the directory with all that is in it.")


class Glob(Arguments):
    """Of `glob`."""

    pattern: str = Field(description="Such as *.py (at any depth), src/*.py, docs/**/*.md.")
    path: str = Field(".", description="The directory to search in.")


class Grep(Arguments):
    """Of `grep`."""

    pattern: str = Field(description="The text to find, literally: not a regular expression.")
    path: str = Field(".", description="The file or directory to search in.")
    glob: str | None = Field(None, description="Search only files that match this pattern, such as *.py.")
    output_mode: Literal["files_with_matches", "content", "count"] = Field(
        "files_with_matches", description="Paths of the files, the matching lines with their numbers, or matches per file."
    )
    context: int = Field(
        0, ge=0, le=CONTEXT_MAX, description="With output_mode content: how many lines to show before and after each match."
    )


class Execute(Arguments):
    """Of `execute`."""

    command: str = Field(description="The shell command.")
    timeout: int = Field(
        EXECUTE_TIMEOUT, ge=1, le=EXECUTE_TIMEOUT_MAX, description="Seconds after which it is killed with all its processes."
    )


def invalid(exc: ValidationError) -> str:
    """What is wrong with the arguments, without repeating them: they may be long."""
    problems = [
        f"{'.'.join(str(part) for part in error['loc']) or 'arguments'}: {error['msg']}"
        for error in exc.errors(include_url=False, include_input=False)
    ]
    return clip("Error: the arguments are not valid: " + "; ".join(problems))
