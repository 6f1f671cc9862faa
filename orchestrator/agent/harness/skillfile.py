"""The format of a SKILL.md, by the Agent Skills specification: YAML front matter, then instructions.

The front matter has `name` (that of the folder: lower-case letters, digits, hyphens) and `description`, and may have `license`,
`compatibility`, `allowed-tools` and `metadata`.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, NotRequired, TypedDict

from orchestrator.agent.render import clean
from orchestrator.errors import BadInput
from orchestrator.yamlfile import parse_yaml
from sandboxes.protocol import ReadResult

FILE = "SKILL.md"
FRONT_MATTER_CAP = 16_000
"""Characters of front matter."""
NAME_CAP = 64
DESCRIPTION_CAP = 1024
COMPATIBILITY_CAP = 500
"""Characters, as the format sets them."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class Skill(TypedDict):
    """What is known of a skill before it is read."""

    name: str
    description: str
    path: str
    """Of its SKILL.md."""
    license: NotRequired[str]
    compatibility: NotRequired[str]
    allowed_tools: NotRequired[list[str]]
    metadata: NotRequired[dict[str, str]]


def parse_skill(path: str, result: ReadResult) -> Skill:
    """The skill whose SKILL.md is `path`, from its first lines. Raises `ValueError` with the rule that it breaks."""
    data = result.file_data
    if result.error or data is None or data["encoding"] == "base64":
        raise ValueError(result.error or f"{FILE} is not text")
    fields = _front_matter(clean(data["content"]))
    name = _text(fields, "name", NAME_CAP, required=True)
    if not _NAME.fullmatch(name):
        raise ValueError("its name may have lower-case letters, digits and single hyphens between them only")
    if name != posixpath.basename(posixpath.dirname(path)):
        raise ValueError("its name is not that of its folder")
    skill = Skill(name=name, description=one_line(_text(fields, "description", DESCRIPTION_CAP, required=True)), path=path)
    if license_ := _text(fields, "license", DESCRIPTION_CAP):
        skill["license"] = license_
    if compatibility := _text(fields, "compatibility", COMPATIBILITY_CAP):
        skill["compatibility"] = compatibility
    if tools := _allowed_tools(fields.get("allowed-tools")):
        skill["allowed_tools"] = tools
    if metadata := _metadata(fields.get("metadata")):
        skill["metadata"] = metadata
    return skill


def _front_matter(text: str) -> dict[str, Any]:
    lines = text.removeprefix("\ufeff").split("\n")
    ends = (number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == "---")
    end = next(ends, 0)
    if lines[0].rstrip() != "---" or not end:
        raise ValueError(f"{FILE} does not begin with front matter between two lines of '---'")
    block = "\n".join(lines[1:end])
    if len(block) > FRONT_MATTER_CAP:
        raise ValueError(f"its front matter has more than {FRONT_MATTER_CAP} characters")
    try:
        fields = parse_yaml(block.encode(), source="front matter").value
    except BadInput as exc:
        raise ValueError(str(exc)) from exc
    if not isinstance(fields, dict):
        raise ValueError("its front matter is not a mapping of names to values")  # noqa: TRY004 - one kind of error for all
    return fields


def _text(fields: dict[str, Any], key: str, cap: int, *, required: bool = False) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"its {key} is not text")  # noqa: TRY004
    if required and not value.strip():
        raise ValueError(f"it has no {key}")
    if len(value) > cap:
        raise ValueError(f"its {key} has more than {cap} characters")
    return value.strip()


def _allowed_tools(value: object) -> list[str]:
    names = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return [name for name in names if isinstance(name, str)]


def _metadata(value: object) -> dict[str, str]:
    return {str(key): str(item) for key, item in value.items()} if isinstance(value, dict) else {}


def one_line(text: str) -> str:
    """`text` without line breaks and runs of spaces."""
    return " ".join(text.split())
