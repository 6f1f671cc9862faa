"""The policy of a merge as a user writes it: a YAML file, or `PATTERN=POLICY`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from pydantic import Field, field_validator

from orchestrator.complaints import read_as
from orchestrator.errors import BadInput
from orchestrator.yamlfile import read_yaml
from sandboxes.errors import InvalidSpec
from sandboxes.providers.base import Strict
from sandboxes.workspace.mergepolicy import RULES_CAP, Choice, Driver, Policy, Rule


class MergeRule(Strict):
    """What holds for the paths that a pattern matches. Of several rules the last one that matches holds."""

    path: str
    """A line of a `.gitignore` at the top, without `!`."""
    policy: Choice = "markers"
    """What the tree holds where there is a conflict."""
    driver: Driver = "text"
    """`json`, `toml`, `yaml`: by key where the lines conflict; `auto`: by the end of the name."""
    command: str | None = None
    """What makes the file anew once two children have changed it."""

    @field_validator("path")
    @classmethod
    def _check_pattern(cls, value: str) -> str:
        try:
            Rule(value)
        except InvalidSpec as exc:
            raise ValueError(str(exc)) from exc
        return value


class MergePolicy(Strict):
    """A policy file."""

    rules: tuple[MergeRule, ...] = Field((), max_length=RULES_CAP)
    include: tuple[str, ...] = Field((), max_length=RULES_CAP)
    """Lines of a `.gitignore`: only what they match is merged."""
    exclude: tuple[str, ...] = Field((), max_length=RULES_CAP)
    """Lines of a `.gitignore`: what they match is not merged."""

    def to_policy(self) -> Policy:
        """As the merge takes it."""
        rules = tuple(Rule(rule.path, rule.policy, rule.driver, rule.command) for rule in self.rules)
        return Policy(rules, self.include, self.exclude)


def parse_policies(values: Iterable[str]) -> Policy:
    """The policies of a command line, each the name of a file or `PATTERN=POLICY`; a later one goes before an earlier one.

    Raises `BadInput` with one line for each thing that is wrong.
    """
    rules: list[Rule] = []
    include: list[str] = []
    exclude: list[str] = []
    for value in values:
        one = _parse(value)
        rules += one.rules
        include += one.include
        exclude += one.exclude
    return Policy(tuple(rules), tuple(include), tuple(exclude))


def _parse(value: str) -> Policy:
    pattern, equals, choice = value.rpartition("=")
    known = get_args(Choice)
    if not equals or (choice not in known and Path(value).is_file()):
        return _load(Path(value))
    if choice not in known:
        raise BadInput(f"--policy {value!r}: {choice!r} is no policy; after the pattern's '=' write one of {', '.join(known)}")
    try:
        return Policy((Rule(pattern, choice),))  # type: ignore[arg-type]
    except InvalidSpec as exc:
        raise BadInput(f"--policy {value!r}: {exc}") from exc


def _load(path: Path) -> Policy:
    document = read_yaml(path)
    if not isinstance(document.value, dict):
        raise BadInput(f"{document.source}: a policy is a mapping: 'rules', and 'include' and 'exclude' if you need them")
    return read_as(MergePolicy, document).to_policy()
