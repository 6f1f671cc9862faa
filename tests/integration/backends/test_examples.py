"""The examples of virtual filesystems, over a real server each: what is particular to a bucket and to a table.

That they answer as every other backend does is shown in `test_same_results.py`.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import fsspec
import pytest
import yaml
from langchain_core.messages import HumanMessage, ToolMessage
from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL

from examples.backends.postgres import PostgresBackend
from examples.backends.s3 import S3Backend
from orchestrator.agent import create_deep_agent
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel
from sandboxes.protocol import BackendProtocol

BOTH = ["postgres_backend", "s3_backend"]
CREATORS = 20
GO = {"messages": [HumanMessage("go")]}


@pytest.fixture(params=BOTH)
def backend(request: pytest.FixtureRequest) -> BackendProtocol:
    return request.getfixturevalue(request.param)


@pytest.fixture
def statements(postgres_backend: PostgresBackend, postgres: URL):
    """A backend over the same table, and the rows that each of its queries brought."""
    engine, seen = create_engine(postgres), []
    event.listen(engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
    yield PostgresBackend(engine, table=postgres_backend.table.name), seen
    engine.dispose()


def test_a_file_is_written_read_edited_found_and_deleted(backend):
    assert backend.write("/notes/plan.md", "one\ntwo\n").path == "/notes/plan.md"
    assert backend.edit("/notes/plan.md", "two", "three").occurrences == 1
    read = backend.read("/notes/plan.md", 1, 1)
    assert (read.content, read.start_line, read.total_lines, read.mime_type) == ("three\n", 2, 2, "text/markdown")
    assert backend.grep("three").matches == [{"path": "/notes/plan.md", "line": 2, "text": "three"}]
    assert [match["path"] for match in backend.glob("*.md").matches] == ["/notes/plan.md"]
    assert [entry["path"] for entry in backend.ls("/").entries] == ["/notes/"]
    assert backend.delete("/notes").error is None
    assert backend.ls("/").entries == []


def test_results_tell_of_no_state_to_update(backend):
    assert backend.write("/a", "x").files_update is None
    assert backend.edit("/a", "x", "y").files_update is None


def test_a_binary_file_comes_back_byte_for_byte(backend):
    content = bytes(range(256)) * 50
    assert backend.upload_files([("/pic.png", content)])[0].error is None
    assert backend.download_files(["/pic.png"])[0].content == content
    assert backend.read("/pic.png").content == content
    assert backend.read("/pic.png").mime_type == "image/png"


def test_text_with_a_late_nul_comes_back_and_is_searched(backend):
    content = b"word\n" * 2000 + b"last\0word\n"
    backend.upload_files([("/log", content)])
    assert backend.download_files(["/log"])[0].content == content
    assert len(backend.grep("word").matches) == 2001
    assert [match["line"] for match in backend.grep("last").matches] == [2001]


def test_a_listing_gives_sizes_in_bytes_and_times_in_utc(backend):
    backend.upload_files([("/d/é.txt", "é".encode()), ("/d/b", b"\0" * 7)])
    entries = backend.ls("/d").entries
    assert [(entry["path"], entry["size"]) for entry in entries] == [("/d/b", 7), ("/d/é.txt", 2)]
    for entry in [*entries, *backend.glob("*").matches]:
        age = datetime.now(UTC) - datetime.fromisoformat(entry["modified_at"])
        assert abs(age) < timedelta(minutes=10)


NAMES = ["%", "_", "a%b", "a_b", "*", "?", "[a]", "back\\slash", "it's", '"', ";--", "é", "a?versionId=1", "%3F"]


@pytest.mark.parametrize("name", NAMES)
def test_no_character_of_a_name_has_a_meaning(backend, name):
    backend.upload_files([("/a", b"of another"), ("/axb/x", b"of another"), ("/0/x", b"of another")])
    assert backend.write(f"/{name}/{name}", "own").error is None
    assert [entry["path"] for entry in backend.ls(f"/{name}").entries] == [f"/{name}/{name}"]
    assert [match["path"] for match in backend.glob("**", f"/{name}").matches] == [f"/{name}/{name}"]
    assert [match["path"] for match in backend.grep("o", f"/{name}").matches] == [f"/{name}/{name}"]
    assert backend.download_files([f"/{name}/{name}"])[0].content == b"own"
    assert backend.delete(f"/{name}").error is None
    assert len(backend.grep("of another").matches) == 3


@pytest.mark.parametrize("path", ["/../x", "/a/../../x", "a\0b", "/" + "n" * 300, "/\udcff", ""])
def test_a_path_that_leads_out_or_cannot_be_is_an_error_and_not_an_exception(backend, path):
    assert backend.ls(path).error
    assert backend.read(path).error
    assert backend.write(path, "x").error
    assert backend.edit(path, "x", "y").error
    assert backend.delete(path).error
    assert backend.glob("*", path).error
    assert backend.grep("x", path).error
    assert backend.upload_files([(path, b"x")])[0].error == "invalid_path"
    assert backend.download_files([path])[0].error == "invalid_path"
    assert backend.ls("/").entries == []


@pytest.mark.parametrize("pattern", ["'", "%", "_", "\\", "'; drop table files; --", "\0", "\udcff", "(", "é"])
def test_a_pattern_is_only_ever_text(backend, pattern):
    backend.upload_files([("/plain", b"nothing here"), ("/with", f"a {pattern} b".encode(errors="surrogateescape"))])
    found = [match["path"] for match in backend.grep(pattern).matches]
    assert found == ([] if pattern in "\0\udcff" else ["/with"])  # what has these is binary


def test_one_of_many_that_create_a_file_does_and_the_others_are_told(backend):
    def create(number):
        return backend.write("/lock", f"{number}")

    with ThreadPoolExecutor(CREATORS) as pool:
        results = list(pool.map(create, range(CREATORS)))
    [winner] = [number for number, result in enumerate(results) if result.error is None]
    assert backend.read("/lock").content == f"{winner}"
    assert {result.error for result in results} - {None} == {
        "Error: '/lock' exists already: read it and edit it, or write to another path"
    }


def test_no_edit_of_a_row_is_lost_between_processes(postgres_backend, postgres):
    postgres_backend.write("/counter", ".")
    engines = [create_engine(postgres) for _ in range(4)]  # each is a process as far as the table can tell
    backends = [PostgresBackend(engine, table=postgres_backend.table.name) for engine in engines]
    with ThreadPoolExecutor(CREATORS) as pool:
        done = list(pool.map(lambda number: backends[number % 4].edit("/counter", ".", f".{number} "), range(CREATORS)))
    assert [result.error for result in done] == [None] * CREATORS
    assert sorted(postgres_backend.read("/counter").content[1:].split(), key=int) == [str(n) for n in range(CREATORS)]
    for engine in engines:
        engine.dispose()


def test_the_time_of_creation_stays(postgres_backend):
    postgres_backend.write("/a", "one")
    first = postgres_backend.read("/a").file_data
    postgres_backend.edit("/a", "one", "two")
    postgres_backend.upload_files([("/a", b"three")])
    last = postgres_backend.read("/a").file_data
    assert last["created_at"] == first["created_at"]
    assert last["modified_at"] > first["modified_at"]


def test_a_search_leaves_in_the_database_what_has_no_match(statements):
    backend, seen = statements
    backend.upload_files([(f"/d/{number}", b"hay\n" * 1000) for number in range(50)] + [("/d/x", b"needle\n")])
    seen.clear()
    assert [match["path"] for match in backend.grep("needle", "/d").matches] == ["/d/x"]
    assert backend.grep("none such", "/d").matches == []
    assert backend.grep("x", "/none").error == "Error: File '/none' not found"
    assert any("strpos" in query for query in seen)


def test_a_listing_takes_no_content_out_of_the_database(statements):
    backend, seen = statements
    backend.upload_files([("/d/e/f", b"x"), ("/d/g", b"x")])
    seen.clear()
    assert [entry["path"] for entry in backend.ls("/d").entries] == ["/d/e/", "/d/g"]
    assert [match["path"] for match in backend.glob("**", "/d").matches] == ["/d/e/f", "/d/g"]
    assert seen
    assert not [query for query in seen if re.search(r"SELECT [^(]*\.content", query)]  # its length is all that comes


def test_a_bucket_is_not_read_where_it_is_only_listed(s3_backend, monkeypatch):
    s3_backend.upload_files([("/d/e/f", b"x"), ("/d/g", b"x")])
    read = []
    monkeypatch.setattr(s3_backend.filesystem, "cat_ranges", lambda *args: read.append(args))
    monkeypatch.setattr(s3_backend.filesystem, "cat_file", lambda *args: read.append(args))
    assert [entry["path"] for entry in s3_backend.ls("/d").entries] == ["/d/e/", "/d/g"]
    assert [match["path"] for match in s3_backend.glob("**").matches] == ["/d/e/f", "/d/g"]
    assert read == []


def test_nothing_beside_the_prefix_is_seen(s3_backend):
    bucket = s3_backend.root.partition("/")[0]
    s3_backend.filesystem.pipe_file(f"{bucket}/agents/77/secret", b"word")
    s3_backend.filesystem.pipe_file(f"{bucket}/secret", b"word")
    assert s3_backend.write("/own", "word").error is None
    assert [match["path"] for match in s3_backend.grep("word").matches] == ["/own"]
    assert [entry["path"] for entry in s3_backend.ls("/").entries] == ["/own"]
    assert s3_backend.delete("/7").error
    assert s3_backend.filesystem.cat_file(f"{bucket}/agents/77/secret") == b"word"


def test_any_other_filesystem_of_fsspec_does_too():
    backend = S3Backend("/of-this-test", filesystem=fsspec.filesystem("memory", skip_instance_cache=True))
    assert backend.write("/a/b.txt", "word\n").error is None
    assert backend.write("/a/b.txt", "again").error.startswith("Error: '/a/b.txt' exists already")
    assert backend.edit("/a/b.txt", "word", "words").occurrences == 1
    assert backend.grep("word").matches == [{"path": "/a/b.txt", "line": 1, "text": "words"}]
    assert [(entry["path"], entry["is_dir"]) for entry in backend.ls("/").entries] == [("/a/", True)]
    assert backend.delete("/a").error is None


@pytest.fixture
def model() -> ScriptedChatModel:
    """Writes, looks, edits and searches, one step after the other."""
    steps = [
        ("write_file", {"file_path": "/report/draft.md", "content": "The sky is green.\n"}),
        ("edit_file", {"file_path": "/report/draft.md", "old_string": "green", "new_string": "blue"}),
        ("ls", {"path": "/report"}),
        ("grep", {"pattern": "sky", "output_mode": "content"}),
        ("read_file", {"file_path": "/report/none.md"}),
    ]
    turns = [{"tool_calls": [{"id": f"call_{n}", "name": name, "args": args}]} for n, (name, args) in enumerate(steps)]
    script = yaml.safe_dump({"turns": [*turns, {"text": "done"}]})
    return ScriptedChatModel(script=load_script(script.encode(), "script.yaml"))


def check_the_report(backend: BackendProtocol, state: dict) -> None:
    results = [message.text for message in state["messages"] if isinstance(message, ToolMessage)]
    assert len(results) == 5
    assert "/report/draft.md" in results[2]
    assert "The sky is blue." in results[3]
    assert "Error: File '/report/none.md' not found" in results[4]
    assert backend.read("/report/draft.md").content == "The sky is blue.\n"
    assert not state.get("files")


def test_an_agent_works_with_it(backend, model):
    check_the_report(backend, create_deep_agent(model, backend=backend).invoke(GO))


async def test_an_agent_works_with_it_async(backend, model):
    check_the_report(backend, await create_deep_agent(model, backend=backend).ainvoke(GO))


async def test_the_async_forms_answer_the_same(backend):
    assert (await backend.awrite("/a/b", "x\n")).path == "/a/b"
    assert (await backend.awrite("/a/b", "x\n")).error.startswith("Error: '/a/b' exists already")
    assert (await backend.aedit("/a/b", "x", "y")).occurrences == 1
    assert (await backend.als("/a")).entries == backend.ls("/a").entries
    assert (await backend.agrep("y")).matches == [{"path": "/a/b", "line": 1, "text": "y"}]


def test_a_path_that_the_place_cannot_take_is_refused_in_words(backend: BackendProtocol) -> None:
    path = "/" + "/".join(os.urandom(120).hex() for _ in range(15))
    assert "too long" in (backend.write(path, "x").error or "")
    first, second = backend.upload_files([(path, b"x"), ("/fits", b"y")])
    assert (first.error, second.error) == ("invalid_path", None)
