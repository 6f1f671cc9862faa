"""Output on its way into the record: ordered, whole, capped."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.errors import StaleLease
from orchestrator.redact import Redactor
from orchestrator.runs.models import Event, Lease, NewRun
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.worker import output as output_module
from orchestrator.worker.output import OutputSink
from orchestrator.worker.past import past_of
from orchestrator.worker.recorder import Recorder


@pytest.fixture
def store(tmp_path: Path):
    opened = Store(open_database(f"sqlite:///{tmp_path / 'x.db'}", tmp_path / "lock"))
    opened.add(NewRun("run-a", "a", {}))
    yield opened
    opened.close()


@pytest.fixture
async def recorder(store: Store) -> AsyncIterator[Recorder]:
    lease = store.claim("run-a", "w")
    assert lease is not None
    made = Recorder(store, lease, Redactor(["hunter2"]))
    yield made
    await made.close()


@pytest.fixture
def sink(recorder: Recorder, tmp_path: Path) -> OutputSink:
    return OutputSink(recorder, "command.output", tmp_path / "log")


async def recorded(store: Store, recorder: Recorder) -> list[Event]:
    await recorder.flush()
    return store.events("run-a")


async def test_pieces_of_one_stream_are_joined_in_order(store: Store, recorder: Recorder, sink: OutputSink) -> None:
    for stream, data in [("stdout", b"a"), ("stdout", b"b"), ("stderr", b"c"), ("stdout", b"d")]:
        sink.feed(stream, data)
    sink.close()
    recorder.emit("command.finished", {"exit_code": 0})
    events = await recorded(store, recorder)
    assert [(e.data.get("stream"), e.data.get("text")) for e in events] == [
        ("stdout", "ab"),
        ("stderr", "c"),
        ("stdout", "d"),
        (None, None),
    ]


async def test_a_character_that_is_cut_is_put_together(store: Store, recorder: Recorder, sink: OutputSink) -> None:
    for byte in "aé€😀".encode():
        sink.feed("stdout", bytes([byte]))
    sink.close()
    events = await recorded(store, recorder)
    assert "".join(e.data["text"] for e in events) == "aé€😀"
    assert not any("base64" in e.data for e in events)


async def test_bytes_that_are_no_text_come_exactly(store: Store, recorder: Recorder, sink: OutputSink) -> None:
    sink.feed("stdout", b"\xff\xfe\x00ab\xe2\x82")
    sink.close()
    events = await recorded(store, recorder)
    exact = b"".join(base64.b64decode(e.data["base64"]) if "base64" in e.data else e.data["text"].encode() for e in events)
    assert exact == b"\xff\xfe\x00ab\xe2\x82"


async def test_a_secret_across_pieces_is_hidden(store: Store, recorder: Recorder, sink: OutputSink) -> None:
    sink.feed("stdout", b"it is hun")
    sink.feed("stdout", b"ter2!")
    sink.close()
    recorder.emit("tool.call", {"args": {"x": ["hunter2"]}})
    events = await recorded(store, recorder)
    assert "".join(e.data.get("text", "") for e in events) == "it is ***!"
    assert events[-1].data == {"args": {"x": ["***"]}}


async def test_what_is_beyond_the_cap_goes_to_the_log_and_then_nowhere(
    store: Store, recorder: Recorder, sink: OutputSink, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(output_module, "LOG_CAP", 5)
    sink._room = 4
    sink.feed("stdout", b"abc")
    sink.feed("stdout", b"defghijklmn")
    sink.close()
    events = await recorded(store, recorder)
    assert "".join(e.data["text"] for e in events) == "abcd"
    assert b"".join([piece async for piece in sink.log_content()]) == b"efghi"
    assert (sink.logged, sink.dropped) == (5, 5)


async def test_a_recorder_whose_lease_is_over_says_so_and_keeps_nothing(store: Store) -> None:
    store.claim("run-a", "w")
    recorder = Recorder(store, Lease("run-a", 99, "w"), Redactor([]))
    recorder.log("info", "late")
    with pytest.raises(StaleLease):
        await recorder.flush()
    with pytest.raises(StaleLease):
        await recorder.close()
    assert store.events("run-a") == []


@pytest.mark.parametrize("cut", range(1, len("hunter2")))
async def test_a_secret_that_is_cut_where_a_run_is_handed_over_is_hidden(
    store: Store, recorder: Recorder, sink: OutputSink, tmp_path: Path, cut: int
) -> None:
    printed = b"the key is hunter2."
    end = len("the key is ") + cut
    sink.feed("stdout", printed[:end])
    sink.leave()
    sink.close()
    past = past_of(await recorded(store, recorder), epoch=1)
    second = OutputSink(recorder, "command.output", tmp_path / "log-2", past)
    second.feed("stdout", printed[second.offsets["stdout"] :])
    second.close()
    texts = [event.data["text"] for event in await recorded(store, recorder)]
    assert "".join(texts) == "the key is ***."
