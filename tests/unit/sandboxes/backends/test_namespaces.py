from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from sandboxes.backends.keyed import namespaces
from sandboxes.backends.keyed.namespaces import Namespace


class Seen(TypedDict):
    namespace: Any


@dataclass
class Context:
    user_id: str


def in_a_run(namespace: Namespace | None, config: Any = None, context: Any = None) -> Any:
    """What the namespace is inside of a graph that is called so."""
    builder = StateGraph(Seen, context_schema=Context)
    builder.add_node("node", lambda _: {"namespace": namespaces.resolve(namespace)})
    builder.add_edge(START, "node")
    app = builder.compile(checkpointer=InMemorySaver())
    where = {"thread_id": "thread-1", **(config or {}).get("configurable", {})}
    asked: Any = {**(config or {}), "configurable": where}
    return app.invoke({"namespace": None}, asked, context=context)["namespace"]


class User(SimpleNamespace):
    identity: str


def served(identity: str = "ann@example.com") -> Any:
    """A run as a LangGraph server starts it."""
    return {"configurable": {"assistant_id": "helper-1", "graph_id": "g", "langgraph_auth_user": User(identity=identity)}}


def test_a_factory_may_separate_users() -> None:
    assert in_a_run(lambda rt: (rt.server_info.user.identity,), served()) == ("ann@example.com",)


def test_a_factory_may_separate_assistants() -> None:
    assert in_a_run(lambda rt: (rt.server_info.assistant_id,), served()) == ("helper-1",)


def test_a_factory_may_separate_threads() -> None:
    assert in_a_run(lambda rt: (rt.execution_info.thread_id,)) == ("thread-1",)


def test_a_factory_may_read_the_context_and_combine_components() -> None:
    factory = lambda rt: (rt.context.user_id, rt.execution_info.thread_id, "filesystem")  # noqa: E731
    assert in_a_run(factory, context=Context("bob")) == ("bob", "thread-1", "filesystem")


def test_a_factory_of_the_old_form_still_gets_the_runtime_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="runtime"):
        assert in_a_run(lambda ctx: (ctx.runtime.context.user_id,), context=Context("bob")) == ("bob",)


def test_a_factory_of_the_old_form_still_gets_the_state_of_a_tool_with_a_warning() -> None:
    tool = SimpleNamespace(state={"user": "bob"}, context=None)
    with pytest.warns(DeprecationWarning, match="state"):
        assert namespaces.resolve(lambda ctx: (ctx.state["user"],), tool) == ("bob",)


def test_a_plain_namespace_needs_no_run() -> None:
    assert namespaces.resolve(("a", "b")) == ("a", "b")
    assert namespaces.resolve(["a"]) == ("a",)
    assert namespaces.resolve("a") == ("a",)
    assert namespaces.resolve(lambda _: ["a", "b"]) == ("a", "b")
    assert namespaces.resolve(lambda rt: ("a", str(rt.store)), Runtime()) == ("a", "None")


def test_a_factory_that_asks_for_what_is_not_known_is_an_error_and_no_guess() -> None:
    with pytest.raises(ValueError, match="there is no run here"):
        namespaces.resolve(lambda rt: (rt.context.user_id,))
    with pytest.raises(ValueError, match="this run does not have it"):
        in_a_run(lambda rt: (rt.server_info.user.identity,))
    with pytest.raises(ValueError, match="a thread's id is known with a checkpointer only"):
        namespaces.resolve(lambda rt: (rt.context,), Runtime())


@pytest.mark.parametrize("component", ["a", "A-Z_09", "ann@example.com", "+49", "urn:x~1", "..", "-"])
def test_components_of_the_allowed_characters_pass(component: str) -> None:
    assert namespaces.checked((component,)) == (component,)


@pytest.mark.parametrize(
    "component", ["", "*", "a*", "?", "a b", "a/b", "a\n", "é", "[a]", "{a}", "%", "a\0", "=2E", None, 7, b"a"]
)
def test_other_components_are_refused(component: Any) -> None:
    with pytest.raises(ValueError, match="component 1 of the namespace"):
        namespaces.checked(("fine", component))
    with pytest.raises(ValueError, match="component 0 of the namespace"):
        in_a_run(lambda _: (component,))


@pytest.mark.parametrize("namespace", [(), [], None, 7, {"a"}, b"a", {"a": "b"}])
def test_what_is_no_namespace_is_refused(namespace: Any) -> None:
    with pytest.raises(ValueError, match="a namespace is a tuple of strings"):
        namespaces.checked(namespace)


def test_what_stores_keep_for_themselves_is_refused() -> None:
    with pytest.raises(ValueError, match="langgraph"):
        namespaces.checked(("langgraph", "a"))


def test_two_namespaces_never_have_the_same_key() -> None:
    assert namespaces.key_of(("ann@example.com",)) == ("ann@example=2Ecom",)
    apart = [("a.b",), ("a", "b"), ("a..b",), ("a.", "b"), ("a", ".b")]
    assert len({".".join(namespaces.key_of(namespace)) for namespace in apart}) == len(apart)


def test_without_a_namespace_it_is_that_of_the_assistant() -> None:
    assert namespaces.resolve(None) == ("filesystem",)
    assert in_a_run(None) == ("filesystem",)
    assert in_a_run(None, {"metadata": {"assistant_id": "helper-1"}}) == ("helper-1", "filesystem")
    tool = SimpleNamespace(config={"metadata": {"assistant_id": "helper-2"}})
    assert namespaces.resolve(None, tool) == ("helper-2", "filesystem")
