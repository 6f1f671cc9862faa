"""Which files an agent may read and write: rules over paths, of which the first that fits decides.

    FilesystemPermission(operations=["write"], paths=["/workspace/tests"], mode="deny")

The rules are asked before a backend is called, for every file tool; what may not be read is left out of lists and searches.
They compare paths and not what lies behind them: a link is judged by its own path. A shell knows no rules, so beside
`execute` they have to be mounts of the sandbox: see `enforcement`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from sandboxes.toolbox.helper import text

FileOperation = Literal["read", "write"]
PermissionMode = Literal["allow", "deny", "interrupt"]

_WILD = "*?[{"


@dataclass(frozen=True)
class FilesystemPermission:
    """A rule. `paths` are globs over absolute paths; one without wildcards, or that ends in `/**`, means the folder with
    all that is in it.

    `*` and `?` do not match `/`; `**` does. Unlike those of the tool `glob`, wildcards match leading dots here. What is in a
    folder that a `deny` or an `interrupt` matches is as closed as the folder; an `allow` opens only what it matches itself.
    Raises `ValueError` when it is not a rule.
    """

    operations: Sequence[FileOperation]
    paths: Sequence[str]
    mode: PermissionMode = "allow"

    def __post_init__(self) -> None:
        """Check it, and keep it as tuples."""
        for name, known in (("operations", get_args(FileOperation)), ("paths", None)):
            given = getattr(self, name)
            if isinstance(given, str) or not given:
                raise ValueError(f"a permission's {name} are a list with at least one entry, not {given!r}")
            unknown = [one for one in given if known is not None and one not in known]
            if unknown:
                raise ValueError(f"a permission's {name} are {' and '.join(known or ())}, not {unknown[0]!r}")
            object.__setattr__(self, name, tuple(given))
        if self.mode not in get_args(PermissionMode):
            raise ValueError(f"a permission's mode is {', '.join(get_args(PermissionMode))}, not {self.mode!r}")
        object.__setattr__(self, "paths", tuple(_checked(path) for path in self.paths))

    @cached_property
    def _matchers(self) -> tuple[Callable[[str], object], ...]:
        return tuple(_matcher(path, whole=self.mode != "allow") for path in self.paths)

    def matches(self, operation: FileOperation, path: str) -> bool:
        """Whether the rule is about this operation on this absolute, normalized path."""
        return operation in self.operations and any(match(path) for match in self._matchers)


def _checked(path: object) -> str:
    """A rule's path, normalized."""
    if not isinstance(path, str) or not path.startswith("/"):
        raise ValueError(f"a permission's paths are absolute, not {path!r}: write it with a leading '/'")
    if "~" in path.split("/"):
        raise ValueError(f"a permission's path {path!r} must not contain '~'")
    if re.search(r"\{[^{}]*/", path):
        raise ValueError(f"a permission's path {path!r} must not have '/' between braces: write two paths")
    try:
        normal: str = text.absolute(path, "/")
        text.glob_matcher(_marked(normal, "**"))
    except text.Refused as exc:
        raise ValueError(f"a permission's path {path!r} is not valid: {exc.message.removeprefix('Error: ')}") from exc
    return normal


def folder(path: str) -> str | None:
    """The folder (or file) that a rule's path covers whole; None when it is a pattern of names."""
    base = path.removesuffix("/**") or "/"
    return None if any(char in base for char in _WILD) else base


def below(path: str, base: str) -> bool:
    """Whether `path` is `base`, or lies in it."""
    return path == base or path.startswith(base.rstrip("/") + "/")


def _matcher(path: str, *, whole: bool) -> Callable[[str], object]:
    """Whether a path is matched; with `whole` also whether it is in a folder that is."""
    base = folder(path)
    if base is not None:
        return lambda asked: below(asked, base)
    patterns = {path, path.removesuffix("/**")}
    matches = [text.glob_matcher(_marked(pattern, "**")) for pattern in patterns]
    if not whole:
        return lambda asked: any(match(_marked(asked)) for match in matches)
    return lambda asked: any(match(_marked(part)) for match in matches for part in _ancestors(asked))


def _marked(path: str, *unmarked: str) -> str:
    """A path whose components all begin with the same character, so that no wildcard has to mind a leading dot."""
    return "/".join(part if part in ("", *unmarked) else "\x01" + part for part in path.split("/")).lstrip("/")


def _ancestors(path: str) -> Iterator[str]:
    """The path and the folders that it is in."""
    while path != "/":
        yield path
        path = path.rpartition("/")[0] or "/"


@dataclass(frozen=True)
class Verdict:
    """What the rules say of one operation. `rule` is the one that decided; None when none did, and it is allowed."""

    mode: PermissionMode = "allow"
    rule: FilesystemPermission | None = None


@dataclass(frozen=True)
class Rules:
    """Rules in their order."""

    rules: tuple[FilesystemPermission, ...] = field(default_factory=tuple)

    @classmethod
    def of(cls, permissions: Iterable[FilesystemPermission | dict[str, Any]] | None) -> Rules:
        """The rules of a list, also of one of plain mappings. Raises `ValueError` when one of them is none."""
        return cls(tuple(_rule(one) for one in permissions or ()))

    def __bool__(self) -> bool:
        return bool(self.rules)

    def verdict(self, operation: FileOperation, path: str) -> Verdict:
        """Of one operation on an absolute, normalized path."""
        found = next((rule for rule in self.rules if rule.matches(operation, path)), None)
        return Verdict() if found is None else Verdict(found.mode, found)

    def verdict_below(self, operation: FileOperation, base: str, lifted: Sequence[FilesystemPermission] = ()) -> Verdict:
        """Of an operation on everything in a folder: the first rule that does not allow it, for some path that may be there.

        Rules that are `lifted` are passed over.
        """
        for rule in self.rules:
            if operation not in rule.operations or rule in lifted:
                continue
            if rule.mode != "allow" and any(may_overlap(path, base) for path in rule.paths):
                return Verdict(rule.mode, rule)
            if rule.mode == "allow" and any(_covers(path, base) for path in rule.paths):
                break
        return Verdict()


def _rule(given: FilesystemPermission | dict[str, Any]) -> FilesystemPermission:
    if isinstance(given, FilesystemPermission):
        return given
    known = ("operations", "paths", "mode")
    if not isinstance(given, dict):  # another package's rule has the same three fields
        given = {name: getattr(given, name, None) for name in known}
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"a permission has no {unknown[0]!r}: it has operations, paths and mode")
    try:
        return FilesystemPermission(**given)
    except TypeError as exc:
        raise ValueError(f"a permission needs operations and paths: {given!r}") from exc


def _covers(path: str, base: str) -> bool:
    covered = folder(path)
    return covered is not None and below(base, covered)


def may_overlap(path: str, base: str) -> bool:
    """Whether a rule's path can match something in the folder `base`, or `base` itself."""
    covered = folder(path)
    if covered is not None:
        return below(covered, base) or below(base, covered)
    literal = path[: min(path.index(char) for char in _WILD if char in path)].rpartition("/")[0]
    return below(literal, base) or below(base, literal or "/")
