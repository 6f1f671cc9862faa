"""What the parts of a task are written in: texts, names, variables, paths, labels, and how large each may be."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from orchestrator.models import split_model

MAX_TIMEOUT = 7 * 86400.0
"""Seconds."""
MAX_RETRIES = 10
MAX_TEXT = 512 * 1024
"""Characters of a prompt or a command; below the size of a task file."""
MAX_LABELS = 32
"""Of one run."""
MAX_LABEL_VALUE = 255
"""Characters."""
MAX_PRIORITY = 100

_NAME = re.compile(r"[\w][\w .:/+-]{0,99}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"[a-z0-9./_-]{1,63}")


def is_name(value: str) -> bool:
    """Whether a run can be called so."""
    return _NAME.fullmatch(value) is not None


def _check_name(value: str) -> str:
    if not is_name(value):
        raise ValueError("must be at most 100 letters, digits, spaces and any of . : / + - _, beginning with a letter or digit")
    return value


def check_filled(value: str) -> str:
    """`value` itself. Raises `ValueError` when it is blank, or cannot be an argument of a program."""
    if not value.strip():
        raise ValueError("must not be empty")
    if "\0" in value:
        raise ValueError("must not contain NUL characters")
    return value


def _check_variables(values: dict[str, str]) -> dict[str, str]:
    for name, value in values.items():
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of an environment variable")
        if "\0" in value:
            raise ValueError(f"the value of {name} must not contain NUL characters")
    return values


def _number_as_text(value: object) -> object:
    """Environment variables are text: `PORT: 8080` means the text."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def check_model(value: str) -> str:
    """`value` itself. Raises `ValueError` when it has no form that a model has."""
    split_model(value)
    return value


Name = Annotated[str, AfterValidator(_check_name)]
Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(check_filled)]
Variables = Annotated[dict[str, Annotated[str, BeforeValidator(_number_as_text)]], AfterValidator(_check_variables)]
ModelName = Annotated[str, AfterValidator(check_model)]
"""`scripted:FILE`, `replay:FILE`, `record:FILE=MODEL`, or `PROVIDER:NAME` as langchain's `init_chat_model` knows it."""


def check_inside(value: str) -> str:
    """A relative path without `..`; where links lead is checked when it is opened."""
    if value.startswith(("/", "~")) or ".." in PurePosixPath(value).parts or "\0" in value or not value:
        raise ValueError(f"{value!r} leads out of the task file's folder: write a path inside it, without '..'")
    return value


InsidePath = Annotated[str, AfterValidator(check_inside)]


def _check_labels(values: dict[str, str]) -> dict[str, str]:
    if len(values) > MAX_LABELS:
        raise ValueError(f"there are {len(values)} labels; a run has at most {MAX_LABELS}")
    for name, value in values.items():
        if not _LABEL.fullmatch(name):
            raise ValueError(f"{name!r} cannot be a label: write 1 to 63 small letters, digits and any of . / _ -")
        if len(value) > MAX_LABEL_VALUE or "\0" in value:
            raise ValueError(f"the value of the label {name} must be at most {MAX_LABEL_VALUE} characters, and no NUL")
    return values


Labels = Annotated[dict[str, Annotated[str, BeforeValidator(_number_as_text)]], AfterValidator(_check_labels)]
Priority = Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)]
