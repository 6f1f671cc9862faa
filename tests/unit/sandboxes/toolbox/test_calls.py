"""Idempotency ids from the context."""

from __future__ import annotations

from sandboxes.toolbox.calls import call_scope, in_scope, inner_scope, nested_scopes, next_call_id


def test_outside_of_a_scope_a_call_has_no_id() -> None:
    assert next_call_id() is None
    with inner_scope("a"), nested_scopes(), inner_scope("b"):
        assert next_call_id() is None
        assert not in_scope()


def test_calls_are_counted_in_their_scope() -> None:
    with call_scope("run"):
        assert [next_call_id(), next_call_id()] == ["run#0", "run#1"]
        with inner_scope("1:a"):
            assert next_call_id() == "run:1:a#0"
        assert next_call_id() == "run#2"


def test_scopes_of_an_agent_that_a_call_starts_are_below_that_call() -> None:
    with call_scope("run"), inner_scope("1:task"), nested_scopes():
        assert in_scope()
        assert next_call_id() is None
        with inner_scope("1:a"):
            assert next_call_id() == "run:1:task/1:a#0"
