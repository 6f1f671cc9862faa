"""Permissions that hold for commands, too: as mounts of the sandbox, which no command can lift.

A rule can be a mount when it denies a whole folder. What cannot be one is refused, never weakened.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from orchestrator.permissions import FileOperation, FilesystemPermission, Rules, below, folder, may_overlap
from sandboxes.providers.base import Mount

WRITABLE = ("/tmp", "/home/sandbox")  # noqa: S108
"""What commands may write in every sandbox, beside the working directory."""


class PermissionsRefused(ValueError):
    """These permissions cannot be enforced for commands. The message names the rule and the reason."""


def mounts_for(permissions: Iterable[FilesystemPermission | dict[str, Any]] | None) -> tuple[Mount, ...]:
    """The mounts that make permissions hold for commands, outer folders first.

    Who must not write gets the folder read-only, who must not read finds it hidden (and cannot write there either). Raises
    `PermissionsRefused` for rules that no mount can express: patterns of names, `interrupt`, an `allow` inside of what a
    later rule denies.
    """
    rules = Rules.of(permissions).rules
    hidden = {path for index, rule in enumerate(rules) for path in _denied(rules, index, rule, "read")}
    closed = {path for index, rule in enumerate(rules) for path in _denied(rules, index, rule, "write")}
    hidden = {path for path in hidden if not _inside(path, hidden)}
    closed = {path for path in closed - hidden if not _inside(path, closed | hidden)}
    found = [Mount(target=path, mode="hidden") for path in hidden] + [Mount(target=path) for path in closed]
    return tuple(sorted(found, key=lambda mount: mount.target))


def check_places(mounts: Iterable[Mount], workdir: str, *, writable_system: bool = False) -> None:
    """Raise `PermissionsRefused` where a command could get around a mount.

    A folder that holds a mount can be renamed by whoever may write beside it, and another put in its place: a mount is safe
    where only the system can do that, and in the writable places themselves, but not deeper in them.
    """
    for mount in mounts:
        place = mount.target
        if below(workdir, place):
            raise PermissionsRefused(f"the working directory {workdir} cannot be closed as a whole: name what is in it")
        writable = [one for one in (workdir, *WRITABLE, *(("/",) if writable_system else ())) if below(place, one)]
        parent = posixpath.dirname(place)
        if writable and parent not in writable:
            raise PermissionsRefused(
                f"'{place}' cannot be closed to commands: they could rename '{parent}' and put another folder in its place. "
                f"Close what lies in {writable[0]} itself, without folders between"
            )


def _inside(path: str, others: Iterable[str]) -> bool:
    return any(other != path and below(path, other) for other in others)


def _denied(
    rules: Sequence[FilesystemPermission], index: int, rule: FilesystemPermission, operation: FileOperation
) -> Iterator[str]:
    """Folders in which this rule denies the operation, as far as no earlier rule allows it."""
    if rule.mode == "allow" or operation not in rule.operations:
        return
    earlier = [path for one in rules[:index] if one.mode == "allow" and operation in one.operations for path in one.paths]
    for path in rule.paths:
        base = folder(path)
        if rule.mode == "interrupt":
            raise _refused(rule, "a command cannot wait for a human: gate `execute` itself with interrupt_on, or use deny")
        if base is None:
            raise _refused(rule, f"'{path}' is a pattern of names, and only whole folders can be closed to commands")
        if base == "/":
            raise _refused(rule, "the whole file system cannot be closed to commands: name the folders")
        if any((covered := folder(one)) is not None and below(base, covered) for one in earlier):
            continue
        inner = next((one for one in earlier if may_overlap(one, base)), None)
        if inner is not None:
            raise _refused(rule, f"an earlier rule allows '{inner}', which is, or may be, a part of '{path}'")
        yield base


def _refused(rule: FilesystemPermission, reason: str) -> PermissionsRefused:
    told = f"{rule.mode} {' and '.join(rule.operations)} on {', '.join(rule.paths)}"
    return PermissionsRefused(f"this permission cannot be enforced beside `execute`: {told}: {reason}")
