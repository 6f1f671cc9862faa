"""JSON of any shape can be written down again, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from orchestrator.api.nesting import CUT, MAX_DEPTH, TakenObject, ToldObject, ToldText


class Told(BaseModel):
    data: ToldObject
    text: ToldText = ""


class Taken(BaseModel):
    data: TakenObject


def nested(depth: int, *, lists: bool = False) -> dict[str, Any]:
    """So many objects, or an object with lists, within each other."""
    value: Any = {} if not lists else []
    for _ in range(depth - 2 if lists else depth - 1):
        value = [value] if lists else {"a": value}
    return {"a": value} if lists else value


@pytest.mark.parametrize("lists", [False, True])
def test_what_is_nested_too_deep_is_not_taken(lists: bool) -> None:
    assert Taken(data=nested(MAX_DEPTH, lists=lists)).data == nested(MAX_DEPTH, lists=lists)
    with pytest.raises(ValidationError, match=f"more than {MAX_DEPTH} deep"):
        Taken(data=nested(MAX_DEPTH + 1, lists=lists))


@pytest.mark.parametrize("lists", [False, True])
def test_what_is_nested_too_deep_is_told_without_its_depths(lists: bool) -> None:
    assert Told(data=nested(MAX_DEPTH, lists=lists)).data == nested(MAX_DEPTH, lists=lists)
    assert CUT in Told(data=nested(900, lists=lists)).model_dump_json()


def test_halves_of_characters_are_told_as_question_marks() -> None:
    told = Told(data={"a\ud800": ["é\udcff", 1, None, True, 0.5]}, text="\ud800x")
    assert Told.model_validate_json(told.model_dump_json()) == told
    assert (told.data, told.text) == ({"a?": ["é?", 1, None, True, 0.5]}, "?x")
