"""Which permissions can be mounts, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.mounts import PermissionsRefused, check_places, mounts_for
from orchestrator.permissions import FilesystemPermission
from sandboxes.providers.base import Mount


def rule(mode: Any, *paths: str, operations: Any = ("read", "write")) -> FilesystemPermission:
    return FilesystemPermission(operations=operations, paths=paths, mode=mode)


def mounts(*rules: FilesystemPermission) -> dict[str, str]:
    return {mount.target: mount.mode for mount in mounts_for(rules)}


def test_who_must_not_write_gets_a_folder_read_only_and_who_must_not_read_finds_it_hidden() -> None:
    assert mounts(rule("deny", "/a", operations=["write"]), rule("deny", "/b/**")) == {"/a": "read-only", "/b": "hidden"}
    assert mounts(rule("deny", "/a", operations=["read"])) == {"/a": "hidden"}


def test_no_permissions_are_no_mounts() -> None:
    assert mounts_for(None) == ()
    assert mounts(rule("allow", "/a/*.py")) == {}


def test_what_is_closed_already_needs_no_mount_of_its_own() -> None:
    closed = rule("deny", "/a", "/a/b", "/a/b/c", operations=["write"])
    assert mounts(closed, rule("deny", "/a/b", "/a/b/d")) == {"/a": "read-only", "/a/b": "hidden"}


def test_outer_folders_come_before_inner_ones() -> None:
    found = mounts_for([rule("deny", "/b/c"), rule("deny", "/b", operations=["write"])])
    assert [mount.target for mount in found] == ["/b", "/b/c"]


def test_a_rule_that_an_earlier_one_lifts_is_no_mount() -> None:
    assert mounts(rule("allow", "/a/**"), rule("deny", "/a/b"), rule("deny", "/c")) == {"/c": "hidden"}
    assert mounts(rule("allow", "/a", operations=["read"]), rule("deny", "/a")) == {"/a": "read-only"}


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([rule("deny", "/a/*.py")], r"deny read and write on /a/\*.py: .* pattern of names"),
        ([rule("interrupt", "/a")], "a command cannot wait for a human"),
        ([rule("deny", "/**")], "the whole file system"),
        ([rule("allow", "/a/out/**"), rule("deny", "/a/**")], "an earlier rule allows '/a/out/\\*\\*'"),
        ([rule("allow", "/**/*.md"), rule("deny", "/a")], "an earlier rule allows"),
    ],
)
def test_what_no_mount_can_express_is_refused_with_rule_and_reason(rules: list[FilesystemPermission], said: str) -> None:
    with pytest.raises(PermissionsRefused, match=said):
        mounts_for(rules)


@pytest.mark.parametrize("target", ["/workspace", "/", "/workspace/a/b", "/tmp/a/b"])
def test_a_place_that_commands_could_exchange_is_refused(target: str) -> None:
    with pytest.raises(PermissionsRefused):
        check_places([Mount(target=target)], "/workspace")


def test_a_place_that_only_the_system_could_exchange_is_safe() -> None:
    check_places([Mount(target=place) for place in ("/workspace/a", "/tmp/a", "/usr/share/x", "/srv")], "/workspace")
    with pytest.raises(PermissionsRefused, match="they could rename '/usr/share'"):
        check_places([Mount(target="/usr/share/x")], "/workspace", writable_system=True)
