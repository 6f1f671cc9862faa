"""Turning pydantic's errors into sentences for the person who wrote the file: where, what is wrong, what was meant."""

from __future__ import annotations

import difflib
import types
import typing
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from orchestrator.errors import BadInput
from orchestrator.yamlfile import Document, KeyPath

M = TypeVar("M", bound=BaseModel)

MAX_SHOWN = 60
"""Characters of a wrong value that a message repeats."""

OPERATORS_KEYS = {
    ("sandbox", "mounts"): "what of the machine is shown in a sandbox is its operator's choice, not a task's",
    ("sandbox", "rootfs"): "what of the machine is shown in a sandbox is its operator's choice, not a task's",
}

_WANTED = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}


def read_as(model: type[M], document: Document) -> M:
    """The model that a document describes. Raises `BadInput` with one line for each thing that is wrong with it."""
    try:
        return model.model_validate(document.value)
    except ValidationError as exc:
        raise BadInput("\n".join(_complaints(exc, model, document))) from exc


def _complaints(exc: ValidationError, model: type[BaseModel], document: Document) -> list[str]:
    """One line for each problem, as `task.yaml:3: sandbox.netwrk: unknown key; did you mean 'network'?`."""
    found = []
    for error in exc.errors(include_url=False):
        path: KeyPath = tuple(part for part in error["loc"] if part != "[key]")
        message = _unknown_key(path, model) if error["type"] == "extra_forbidden" else _wrong_value(error)
        dotted = ".".join(str(part) for part in path)
        text = f"{document.where(path)}: {dotted}: {message}" if dotted else f"{document.source}: {message}"
        found.append((document.line(path), text))
    return [text for _, text in sorted(found)]


def complaint(place: KeyPath, message: str) -> ValidationError:
    """What a validator of a whole raises about a part of it, so that the message comes with the part's place."""
    kind = PydanticCustomError("value_error", "{error}", {"error": message})
    return ValidationError.from_exception_data("", [InitErrorDetails(type=kind, loc=place, input=None)])


def did_you_mean(word: str, known: typing.Iterable[str]) -> str:
    """`; did you mean 'network'?`, or nothing when no known word is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""


def _unknown_key(path: KeyPath, model: type[BaseModel]) -> str:
    if path in OPERATORS_KEYS:
        return OPERATORS_KEYS[path]
    known = sorted(_fields_at(model, path[:-1]))
    suggestion = did_you_mean(str(path[-1]), known)
    return f"unknown key{suggestion}" if suggestion else f"unknown key; known here: {', '.join(known)}"


def _wrong_value(error: Any) -> str:
    kind, shown = error["type"], _shown(error["input"])
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind in _WANTED:
        return f"{_WANTED[kind]}, not {shown}"
    message = error["msg"].replace("Input should", "must")
    return f"{message[0].lower()}{message[1:]}, not {shown}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def _fields_at(model: type[BaseModel], path: KeyPath) -> set[str]:
    """The keys that are known at `path` of a document for `model`."""
    current: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int) or current is None or part not in current.model_fields:
            continue
        current = _model_in(current.model_fields[part].annotation)
    return set(current.model_fields) if current else set()


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated, tuple, list, dict):
        found = (_model_in(part) for part in get_args(annotation))
        return next((model for model in found if model), None)
    return None
