from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.store.base import GetOp, Item, Op, PutOp, Result, SearchItem, SearchOp
from langgraph.store.memory import InMemoryStore

from sandboxes import protocol as p
from sandboxes.backends import StoreBackend
from sandboxes.backends.keyed import searching
from sandboxes.backends.keyed.shelf import PAGE

MINE = ("mine",)


class Answers(TypedDict):
    answer: Any


def run(node: Any, store: Any = None, **config: Any) -> Any:
    """The answer of a graph of one node."""
    return graph(node, store).invoke({"answer": None}, {"configurable": {"thread_id": "1", **config}})["answer"]


def graph(node: Any, store: Any = None) -> Any:
    builder = StateGraph(Answers)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=InMemorySaver(), store=store)


def names(found: list[p.FileInfo] | None) -> list[str]:
    return [info["path"] for info in found or []]


def test_files_outlive_the_thread_in_the_store_of_the_graph() -> None:
    store, backend = InMemoryStore(), StoreBackend(namespace=MINE)
    assert run(lambda _: {"answer": backend.write("/a", "x\n").files_update}, store, thread_id="1") is None
    assert run(lambda _: {"answer": backend.read("/a").content}, store, thread_id="2") == "x\n"
    item = store.get(MINE, "/a")
    assert item is not None
    assert sorted(item.value) == ["content", "created_at", "encoding", "mime_type", "modified_at"]


def test_a_store_that_was_given_needs_no_graph() -> None:
    store = InMemoryStore()
    backend = StoreBackend(store=store, namespace=MINE)
    backend.write("/a/b", "one")
    assert backend.edit("/a/b", "one", "two").occurrences == 1
    assert StoreBackend(store, namespace=MINE).read("/a/b").content == "two"
    assert names(backend.ls("/").entries) == ["/a/"]
    assert backend.delete("/a").error is None
    assert list(store.search(MINE)) == []


def test_no_store_is_an_error_of_the_program() -> None:
    backend = StoreBackend(namespace=MINE)
    with pytest.raises(ValueError, match="no store"):
        backend.ls("/")
    with pytest.raises(ValueError, match="no store"):
        run(lambda _: {"answer": backend.ls("/").error})


def test_a_namespace_that_cannot_be_is_refused_when_it_is_given() -> None:
    for wrong in ("", (), ("*",), ("a", "")):
        with pytest.raises(ValueError, match="namespace"):
            StoreBackend(store=InMemoryStore(), namespace=wrong)


@pytest.mark.parametrize(
    "namespace",
    [
        lambda rt: (rt.server_info.user.identity,),
        lambda rt: (rt.server_info.assistant_id,),
        lambda rt: (rt.execution_info.thread_id,),
        lambda rt: (rt.server_info.user.identity, rt.execution_info.thread_id, "filesystem"),
    ],
)
def test_users_assistants_and_threads_do_not_see_each_others_files(namespace: Any) -> None:
    store, backend = InMemoryStore(), StoreBackend(namespace=namespace)

    def node(_: Any) -> Any:
        return {"answer": (names(backend.glob("*").matches), backend.write("/a", "x").error)}

    for one in ("ann@example.com", "ann@example.org", "ann"):
        user = SimpleNamespace(identity=one)
        asked = {"thread_id": one, "assistant_id": one, "langgraph_auth_user": user}
        assert run(node, store, **asked) == ([], None)
        assert run(node, store, **asked)[0] == ["/a"]


class Loose(InMemoryStore):
    """A store whose search finds whatever begins like the prefix, as one that keeps namespaces as text does."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        answers: list[Result] = []
        for op in ops:
            if isinstance(op, SearchOp):
                begins = ".".join(op.namespace_prefix)
                items = [item for space in self._data.values() for item in space.values()]
                near = [item for item in items if ".".join(item.namespace).startswith(begins)]
                page = near[op.offset : op.offset + op.limit]
                answers.append([SearchItem(i.namespace, i.key, i.value, i.created_at, i.updated_at) for i in page])
            else:
                answers += super().batch([op])
        return answers


@pytest.mark.parametrize("kind", [InMemoryStore, Loose])
def test_a_search_of_the_store_that_finds_too_much_shows_nothing_of_others(kind: type[InMemoryStore]) -> None:
    store = kind()
    for other in (("ann", "secret"), ("anna",), ("ann.a",)):
        StoreBackend(store=store, namespace=other).write("/theirs", "needle")
    backend = StoreBackend(store=store, namespace=("ann",))
    backend.write("/mine", "needle")
    assert names(backend.ls("/").entries) == names(backend.glob("*").matches) == ["/mine"]
    assert [match["path"] for match in backend.grep("needle").matches or []] == ["/mine"]
    assert backend.delete("/theirs").error == "Error: File '/theirs' not found"


def test_what_others_keep_in_the_namespace_breaks_nothing() -> None:
    store = InMemoryStore()
    store.put(MINE, "profile", {"name": "Ann"})
    store.put(MINE, "/odd", {"name": "Ann"})
    store.put(MINE, "/old", {"content": ["a", "b"], "created_at": "", "modified_at": ""})
    backend = StoreBackend(store=store, namespace=MINE)
    assert names(backend.ls("/").entries) == ["/odd", "/old"]
    assert backend.read("/old").content == "a\nb"
    assert "is not kept as a file" in (backend.read("/odd").error or "")
    assert backend.grep("Ann").matches == []


def test_the_first_format_is_written_when_it_is_asked_for() -> None:
    store = InMemoryStore()
    StoreBackend(store=store, namespace=MINE, file_format="v1").write("/a", "x\ny")
    item = store.get(MINE, "/a")
    assert item is not None
    assert item.value["content"] == ["x", "y"]


class Counting(InMemoryStore):
    """A real store that notes how much it is asked for at once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def _note(self, ops: Iterable[Op]) -> list[Op]:
        noted = list(ops)
        self.asked += [op.limit if isinstance(op, SearchOp) else 1 for op in noted]
        self.asked.append(len(noted))
        return noted

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return super().batch(self._note(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await super().abatch(self._note(ops))


@pytest.fixture(scope="module")
def large() -> Counting:
    store = Counting()
    for start in range(0, 25_000, 1000):
        kept = ((f"/d{number % 7}/f{number:05}.txt", f"line\nneedle {number}\n") for number in range(start, start + 1000))
        store.batch([PutOp(MINE, path, {"content": text, "encoding": "utf-8"}) for path, text in kept])
    store.asked.clear()
    return store


async def test_a_large_store_is_read_in_pages(large: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "SECONDS", 600.0)  # this store takes longer for each further page
    backend = StoreBackend(store=large, namespace=MINE)
    assert names(backend.ls("/").entries) == [f"/d{number}/" for number in range(7)]
    found = await backend.aglob("*99.txt", "/d1")
    assert names(found.matches) == sorted(f"/d1/f{number:05}.txt" for number in range(99, 25_000, 100) if number % 7 == 1)
    lines = await backend.agrep("needle", max_count=5)
    assert [match["path"] for match in lines.matches or []] == [f"/d0/f{number:05}.txt" for number in range(0, 35, 7)]
    assert lines.truncated
    assert max(large.asked) <= PAGE


async def test_a_large_folder_is_filled_and_deleted_in_pages() -> None:
    store = Counting()
    backend = StoreBackend(store=store, namespace=MINE)
    files = [(f"/dir/{number}", b"x") for number in range(1200)]
    assert not any(answer.error for answer in backend.upload_files(files))
    assert [answer.content for answer in await backend.adownload_files([path for path, _ in files])] == [b"x"] * 1200
    assert (await backend.adelete("/dir")).error is None
    assert max(store.asked) <= PAGE
    assert list(store.search(MINE)) == []


class AsyncOnly(InMemoryStore):
    """A store that answers only asynchronously, as one whose connection belongs to the event loop."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        raise asyncio.InvalidStateError("a sync call on the event loop")


async def test_every_async_form_uses_the_async_methods_of_the_store_alone() -> None:
    backend = StoreBackend(store=AsyncOnly(), namespace=MINE)
    assert (await backend.awrite("/a/b.txt", "one\n")).error is None
    assert "exists already" in ((await backend.awrite("/a/b.txt", "two")).error or "")
    assert (await backend.awrite("/a/b.txt/c", "two")).error == "Error: '/a/b.txt/c' has a file where a directory should be"
    assert (await backend.aedit("/a/b.txt", "one", "two")).occurrences == 1
    assert (await backend.aread("/a/b.txt")).content == "two\n"
    assert (await backend.aread_raw("/a/b.txt")).error is None
    assert names((await backend.als("/a")).entries) == ["/a/b.txt"]
    assert names((await backend.aglob("*.txt")).matches) == ["/a/b.txt"]
    assert len((await backend.agrep("two")).matches or []) == 1
    assert (await backend.aupload_files([("/a", b""), ("/c", b"")]))[0].error == "is_directory"
    assert [answer.error for answer in await backend.adownload_files(["/c", "/a"])] == [None, "is_directory"]
    assert (await backend.adelete("/c")).error is None
    assert names((await backend.als("/")).entries) == ["/a/"]


async def test_async_forms_find_the_store_of_the_graph() -> None:
    backend = StoreBackend(namespace=lambda rt: (rt.execution_info.thread_id,))

    async def node(_: Any) -> Any:
        await backend.awrite("/a", "x")
        return {"answer": (await backend.aread("/a")).content}

    store = AsyncOnly()
    answer = await graph(node, store).ainvoke({"answer": None}, {"configurable": {"thread_id": "t"}})
    assert answer["answer"] == "x"
    assert [item.namespace for item in await store.asearch(())] == [("t",)]


class Slow(InMemoryStore):
    """A store that lets others run between any two calls."""

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        noted = list(ops)
        await asyncio.sleep(0)
        answers = await super().abatch(noted)
        await asyncio.sleep(0)
        return answers


async def test_edits_of_one_file_at_the_same_time_do_not_undo_each_other() -> None:
    backend = StoreBackend(store=Slow(), namespace=MINE)
    await backend.awrite("/a", " ".join(f"<{number}>" for number in range(30)))
    await asyncio.gather(*(backend.aedit("/a", f"<{number}>", str(number)) for number in range(30)))
    assert (await backend.aread("/a")).content == " ".join(map(str, range(30)))
    made = await asyncio.gather(*(backend.awrite("/new", str(number)) for number in range(10)))
    assert sum(answer.error is None for answer in made) == 1


class Guarded(StoreBackend):
    def write(self, file_path: str, content: str) -> p.WriteResult:
        locked = file_path.startswith("/locked/")
        return p.WriteResult(error="Error: forbidden") if locked else super().write(file_path, content)


async def test_a_subclass_that_forbids_a_method_forbids_its_async_form() -> None:
    backend = Guarded(store=InMemoryStore(), namespace=MINE)
    assert (await backend.awrite("/locked/a", "x")).error == "Error: forbidden"
    assert (await backend.awrite("/open", "x")).error is None


async def test_a_subclass_of_both_forms_keeps_to_the_async_methods_of_the_store() -> None:
    class Both(Guarded):
        async def awrite(self, file_path: str, content: str) -> p.WriteResult:
            return p.WriteResult(error="Error: no") if "no" in file_path else await super().awrite(file_path, content)

    backend = Both(store=AsyncOnly(), namespace=MINE)
    assert (await backend.awrite("/no", "x")).error == "Error: no"
    assert (await backend.awrite("/yes", "x")).error is None


def test_items_get_the_lifetime_that_the_store_gives_by_itself() -> None:
    seen: list[float | None] = []

    class Aging(InMemoryStore):
        ttl_config = {"default_ttl": 5.0}

        def batch(self, ops: Iterable[Op]) -> list[Result]:
            noted = list(ops)
            seen.extend(op.ttl for op in noted if isinstance(op, PutOp))
            return super().batch(noted)

    StoreBackend(store=Aging(), namespace=MINE).write("/a", "x")
    assert seen == [5.0]


def test_an_answer_for_another_namespace_is_no_file() -> None:
    class Confused(InMemoryStore):
        def batch(self, ops: Iterable[Op]) -> list[Result]:
            times: Any = {"created_at": "2024-01-01", "updated_at": "2024-01-01"}
            stray = Item(value={"content": "x"}, key="/a", namespace=("other",), **times)
            return [stray if isinstance(op, GetOp) else [] for op in ops]

    assert StoreBackend(store=Confused(), namespace=MINE).read("/a").error == "Error: File '/a' not found"


# -- deprecated forms


def test_without_a_namespace_it_warns_once_and_uses_that_of_the_assistant() -> None:
    store = InMemoryStore()
    with pytest.warns(DeprecationWarning, match="namespace") as caught:
        backend = StoreBackend(store=store)
    assert [warning.filename for warning in caught] == [__file__]
    backend.write("/a", "x")
    graph(lambda _: {"answer": backend.write("/b", "x").error}).invoke(
        {"answer": None}, {"configurable": {"thread_id": "1"}, "metadata": {"assistant_id": "helper"}}
    )
    assert {item.namespace: item.key for item in store.search(())} == {("filesystem",): "/a", ("helper", "filesystem"): "/b"}


def test_a_runtime_gives_its_store_with_one_warning() -> None:
    runtime = SimpleNamespace(store=InMemoryStore(), state={}, config={"metadata": {"assistant_id": "helper"}})
    with pytest.warns(DeprecationWarning, match="no longer takes a runtime") as caught:
        backend = StoreBackend(runtime)
    assert [warning.filename for warning in caught] == [__file__]
    backend.write("/a", "x")
    assert runtime.store.get(("helper", "filesystem"), "/a") is not None


def test_an_old_factory_for_a_namespace_still_works_with_a_warning() -> None:
    backend = StoreBackend(store=InMemoryStore(), namespace=lambda ctx: (ctx.runtime.execution_info.thread_id,))
    with pytest.warns(DeprecationWarning, match="runtime"):
        assert run(lambda _: {"answer": backend.write("/a", "x").error}) is None


# -- a shared dict


def test_sessions_share_files_through_a_dict() -> None:
    shared: dict[str, Any] = {}
    written = StoreBackend(shared, namespace="project").write("/readme.md", "# My Project")
    assert written.files_update is not None
    assert list(written.files_update) == ["/project/readme.md"]
    shared["files"].update(written.files_update)
    assert shared["files"]["/project/readme.md"]["content"] == ["# My Project"]
    assert StoreBackend(shared, namespace="project").read("/readme.md").content == "# My Project"


async def test_a_dict_is_seen_below_the_namespace_only() -> None:
    shared: dict[str, Any] = {}
    one, two, all_of_it = (StoreBackend(shared, namespace=space) for space in ("project1", "project", None))
    one.write("/src/main.py", "needle")
    await two.awrite("/readme.md", "needle")
    assert names(one.ls("/").entries) == ["/src/"]
    assert names((await two.als("/")).entries) == ["/readme.md"]
    assert [match["path"] for match in one.grep("needle").matches or []] == ["/src/main.py"]
    assert names(all_of_it.glob("*").matches) == ["/project/readme.md", "/project1/src/main.py"]
    edited = one.edit("/src/main.py", "needle", "pin")
    assert list(edited.files_update or {}) == ["/project1/src/main.py"]
    assert one.delete("/src").error is None
    assert list(shared["files"]) == ["/project/readme.md"]


def test_the_current_format_is_written_to_a_dict_when_it_is_asked_for() -> None:
    shared: dict[str, Any] = {}
    StoreBackend(shared, file_format="v2").write("/a", "x")
    assert shared["files"]["/a"]["content"] == "x"


def test_sessions_that_write_at_the_same_time_lose_nothing() -> None:
    shared: dict[str, Any] = {"files": {}}

    def session(number: int) -> None:
        for count in range(50):
            StoreBackend(shared, namespace=f"s{number}").write(f"/{count}", "x")

    threads = [threading.Thread(target=session, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(shared["files"]) == 400
