"""What permissions match, and which rule decides."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.permissions import FilesystemPermission, Rules


def rule(mode: Any, *paths: str, operations: Any = ("read", "write")) -> FilesystemPermission:
    return FilesystemPermission(operations=operations, paths=paths, mode=mode)


def denied(path: str, *rules: FilesystemPermission, operation: Any = "read") -> bool:
    return Rules.of(rules).verdict(operation, path).mode == "deny"


def test_without_a_rule_that_fits_everything_is_allowed() -> None:
    assert Rules().verdict("write", "/a").mode == "allow"
    assert not denied("/b", rule("deny", "/a"))


def test_the_first_rule_that_fits_decides() -> None:
    open_then_closed = (rule("allow", "/a/out"), rule("deny", "/a"))
    assert not denied("/a/out/x", *open_then_closed)
    assert denied("/a/x", *open_then_closed)
    assert denied("/a/out/x", *reversed(open_then_closed))


def test_a_rule_is_about_its_operations_alone() -> None:
    closed = rule("deny", "/a", operations=["write"])
    assert denied("/a/x", closed, operation="write")
    assert not denied("/a/x", closed, operation="read")


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("/a", ["/a", "/a/b", "/a/.b/c"], ["/ab", "/", "/b/a"]),
        ("/a/", ["/a", "/a/b"], ["/ab"]),
        ("/a/**", ["/a", "/a/b", "/a/.env", "/a/b/c"], ["/ab"]),
        ("/**", ["/", "/a", "/.a/b"], []),
        ("/a/*.py", ["/a/x.py", "/a/.py", "/a/x.py/inside"], ["/a/b/x.py", "/a/x.txt", "/a"]),
        ("/**/.env", ["/.env", "/a/b/.env"], ["/a/env", "/a/.envx"]),
        ("/**/*.env", ["/.env", "/a/x.env"], ["/a/envx"]),
        ("/a/?env", ["/a/.env", "/a/xenv"], ["/a/env", "/a/b/env"]),
        ("/a/[.x]env", ["/a/.env", "/a/xenv"], ["/a/yenv"]),
        ("/a/*/secret", ["/a/b/secret", "/a/b/secret/key", "/a/.b/secret"], ["/a/secret", "/a/b/c/secret"]),
        ("/a/*/secret/**", ["/a/b/secret", "/a/b/secret/key"], ["/a/secret"]),
        ("/a/{b,c}/x", ["/a/b/x", "/a/c/x"], ["/a/d/x"]),
        ("/a//./b", ["/a/b", "/a/b/c"], ["/a"]),
    ],
)
def test_a_denied_pattern_closes_what_it_matches_and_all_that_is_in_it(
    pattern: str, inside: list[str], outside: list[str]
) -> None:
    for path in inside:
        assert denied(path, rule("deny", pattern)), path
    for path in outside:
        assert not denied(path, rule("deny", pattern)), path


def test_an_allowed_pattern_of_names_opens_no_more_than_it_matches() -> None:
    rules = (rule("allow", "/a/*.d"), rule("deny", "/a"))
    assert not denied("/a/x.d", *rules)
    assert denied("/a/x.d/inside", *rules)


def test_a_folder_is_closed_when_something_in_it_is_or_may_be() -> None:
    def below(base: str, *rules: FilesystemPermission) -> str:
        return Rules.of(rules).verdict_below("write", base).mode

    assert below("/a", rule("deny", "/a/b/c")) == "deny"
    assert below("/a", rule("deny", "/**/*.env")) == "deny"
    assert below("/a", rule("interrupt", "/a/*")) == "interrupt"
    assert below("/a", rule("deny", "/b/*.env")) == "allow"
    assert below("/a", rule("deny", "/a/x", operations=["read"])) == "allow"
    assert below("/a/out", rule("allow", "/a/out/**"), rule("deny", "/a")) == "allow"
    assert below("/a", rule("allow", "/a/out/**"), rule("deny", "/a")) == "deny"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"operations": ["fly"], "paths": ["/a"]}, "operations are read and write, not 'fly'"),
        ({"operations": [], "paths": ["/a"]}, "at least one entry"),
        ({"operations": "read", "paths": ["/a"]}, "are a list"),
        ({"operations": ["read"], "paths": "/a"}, "are a list"),
        ({"operations": ["read"], "paths": ["a"]}, "absolute, not 'a'"),
        ({"operations": ["read"], "paths": [3]}, "absolute, not 3"),
        ({"operations": ["read"], "paths": ["/a/../b"]}, "must not contain '..'"),
        ({"operations": ["read"], "paths": ["/~/b"]}, "must not contain '~'"),
        ({"operations": ["read"], "paths": ["/a\0b"]}, "NUL"),
        ({"operations": ["read"], "paths": ["/{a/b,c}"]}, "between braces"),
        ({"operations": ["read"], "paths": ["/a"], "mode": "ask"}, "mode is allow, deny, interrupt, not 'ask'"),
        ({"operations": ["read"], "paths": ["/a"], "path": "/b"}, "has no 'path'"),
        ({"operations": ["read"]}, "needs operations and paths"),
    ],
)
def test_what_is_no_rule_is_told(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        Rules.of([given])


def test_rules_may_be_plain_mappings_or_another_packages_objects() -> None:
    class Theirs:
        operations = ["read"]
        paths = ["/a"]
        mode = "deny"

    theirs: Any = Theirs()
    assert Rules.of([theirs]) == Rules.of([{"operations": ["read"], "paths": ["/a"], "mode": "deny"}])
