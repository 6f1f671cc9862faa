"""Whether permissions hold for commands: which backends are taken with them, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.agent.harness import FilesystemMiddleware, PermissionsRefused, create_deep_agent
from orchestrator.permissions import FilesystemPermission
from sandboxes.backends import CompositeBackend, LocalShellBackend, PolicyBackend, StateBackend
from sandboxes.providers.base import Mount


def rule(mode: Any, *paths: str, operations: Any = ("read", "write")) -> FilesystemPermission:
    return FilesystemPermission(operations=operations, paths=paths, mode=mode)


def closing(backend: Any, *mounts: Mount) -> Any:
    """The backend as a sandbox that was made with these mounts."""
    backend.mounts = mounts
    return backend


def accept(backend: Any, *rules: FilesystemPermission) -> None:
    FilesystemMiddleware(backend=backend, permissions=rules)


def test_a_backend_without_commands_takes_every_permission() -> None:
    accept(StateBackend(), rule("deny", "/**/*.env"), rule("interrupt", "/a"))


def test_a_backend_that_cannot_tell_its_mounts_is_refused(backend: Any, tmp_path: Any) -> None:
    for shell in (backend, LocalShellBackend(root_dir=tmp_path), CompositeBackend(default=PolicyBackend(backend))):
        with pytest.raises(PermissionsRefused, match="cannot be enforced for the commands of"):
            accept(shell, rule("deny", "/srv/a"))
        accept(shell, rule("allow", "/srv/a"))


def test_a_sandbox_that_was_made_with_the_mounts_is_taken(backend: Any) -> None:
    hidden, closed = Mount(target="/srv/a", mode="hidden"), Mount(target="/srv/b")
    box = closing(backend, hidden, closed)
    accept(box, rule("deny", "/srv/a"), rule("deny", "/srv/b/**", operations=["write"]))
    accept(CompositeBackend(default=PolicyBackend(box, allow_execute=True)), rule("deny", "/srv/a/inner"))
    accept(box, rule("deny", "/srv/a", operations=["write"]))


@pytest.mark.parametrize(
    ("mounts", "wanted"),
    [
        ((), rule("deny", "/srv/a")),
        ((Mount(target="/srv/a"),), rule("deny", "/srv/a")),
        ((Mount(target="/srv/a/b", mode="hidden"),), rule("deny", "/srv/a")),
        ((Mount(target="/srv/a", mode="hidden"), Mount(target="/srv/a/b")), rule("deny", "/srv/a")),
        ((Mount(target="/srv", mode="hidden"), Mount(target="/srv/a")), rule("deny", "/srv/a")),
    ],
)
def test_a_sandbox_that_leaves_something_open_is_refused(backend: Any, mounts: Any, wanted: FilesystemPermission) -> None:
    with pytest.raises(PermissionsRefused, match="the sandbox was made without it"):
        accept(closing(backend, *mounts), wanted)


def test_a_place_that_commands_could_exchange_is_refused(backend: Any, folder: Any) -> None:
    deep = f"{folder}/a/b"
    with pytest.raises(PermissionsRefused, match="they could rename"):
        accept(closing(backend, Mount(target=deep)), rule("deny", deep, operations=["write"]))


def test_rules_for_files_that_commands_cannot_reach_need_no_mounts(backend: Any) -> None:
    both = CompositeBackend(default=backend, routes={"/memories/": StateBackend()})
    accept(both, rule("deny", "/memories/private/**"), rule("interrupt", "/memories"))
    with pytest.raises(PermissionsRefused):
        accept(both, rule("deny", "/srv/a", "/memories/private"))


def test_a_factory_is_looked_at_when_it_has_made_the_backend(backend: Any) -> None:
    with pytest.warns(DeprecationWarning, match="factory"):
        middleware = FilesystemMiddleware(backend=lambda runtime: backend, permissions=[rule("deny", "/srv/a")])
    read = next(tool for tool in middleware.tools if tool.name == "read_file")
    with pytest.raises(PermissionsRefused):
        read.invoke({"file_path": "/srv/b"})


def test_an_agent_is_not_made_with_permissions_that_would_not_hold(backend: Any, scripted: Any) -> None:
    with pytest.raises(PermissionsRefused):
        create_deep_agent(scripted(), backend=backend, permissions=[rule("deny", "/srv/a")])
    subagent: Any = {"name": "x", "description": "y", "system_prompt": "z", "permissions": [rule("deny", "/srv/a")]}
    with pytest.raises(PermissionsRefused):
        create_deep_agent(scripted(), backend=backend, subagents=[subagent])
