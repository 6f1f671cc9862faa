"""Whether permissions hold for the commands of a backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.agent.harness.backend import can_execute, working_directory
from orchestrator.mounts import PermissionsRefused, check_places, mounts_for
from orchestrator.permissions import FilesystemPermission, Rules, below
from sandboxes.protocol import BackendProtocol
from sandboxes.providers.base import Mount


def check_enforced(rules: Rules, backend: BackendProtocol) -> None:
    """Raise `PermissionsRefused` when `backend` runs commands that these rules would not hold for."""
    if not rules or not can_execute(backend):
        return
    runner, routes = _runner(backend)
    reachable = [rule for rule in (_reachable(rule, routes) for rule in rules.rules) if rule is not None]
    wanted = mounts_for(reachable)
    mounts = getattr(runner, "mounts", None)
    if wanted and not isinstance(mounts, tuple):
        raise PermissionsRefused(
            f"permissions cannot be enforced for the commands of {type(runner).__name__}: use a sandbox of a Fanfold provider "
            "that was made with SandboxSpec(mounts=mounts_for(permissions)), or a backend without `execute`"
        )
    check_places(wanted, working_directory(runner))
    for mount in wanted:
        if not _holds(mounts or (), mount):
            raise PermissionsRefused(
                f"permissions close {mount.target} ({mount.mode}), but the sandbox was made without it: make it with "
                "SandboxSpec(mounts=mounts_for(permissions))"
            )


def _runner(backend: BackendProtocol) -> tuple[BackendProtocol, list[str]]:
    """The backend that runs the commands, and the paths that are not in it."""
    routes: list[str] = []
    while not isinstance(getattr(backend, "mounts", None), tuple):
        given = getattr(backend, "routes", None)
        routes += [route.rstrip("/") for route in given] if isinstance(given, Mapping) else []
        inner = getattr(backend, "default", None) or getattr(backend, "inner", None)
        if not isinstance(inner, BackendProtocol):
            break
        backend = inner
    return backend, routes


def _reachable(rule: FilesystemPermission, routes: Sequence[str]) -> FilesystemPermission | None:
    """The part of a rule that concerns paths which a command can reach."""
    paths = [path for path in rule.paths if not any(below(path, route) for route in routes)]
    return FilesystemPermission(rule.operations, paths, rule.mode) if paths else None


def _holds(mounts: Sequence[Mount], wanted: Mount) -> bool:
    """Whether mounts close what is wanted at least as much. Of mounts over each other the last counts."""
    over = [given for given in mounts if below(wanted.target, given.target)]
    if not over or (wanted.mode == "hidden" and over[-1].mode != "hidden"):
        return False
    later = mounts[mounts.index(over[-1]) + 1 :]
    return wanted.mode == "read-only" or not any(below(one.target, wanted.target) and one.mode != "hidden" for one in later)
