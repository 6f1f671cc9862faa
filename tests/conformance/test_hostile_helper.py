"""The client of the toolbox against helpers that attack it: a clear `SandboxError`, in time, in bounded memory."""

import asyncio
import tracemalloc

import pytest

from sandboxes.errors import FanfoldSandboxError, PatchRefused, ProtocolError, SandboxError, SandboxGone, SandboxTimeout
from sandboxes.sandbox import CommandSpec, Edit, FileEntry
from sandboxes.testing import hostile
from sandboxes.toolbox import client as toolbox
from sandboxes.toolbox.attached import ToolboxSandbox
from sandboxes.toolbox.client import connect
from sandboxes.toolbox.helper import wire
from sandboxes.workspace.fetching import Files
from sandboxes.workspace.pack import pack
from sandboxes.workspace.store import blob_id

DEADLINE = 0.5
"""Seconds that the client grants."""
GRACE = 10.0
"""Seconds after which it has hung."""
MEMORY = 96 * 1024 * 1024
"""Bytes that a client may hold for one frame: the protocol's caps, twice over."""
SPILLED = 700
"""MiB that the lying manifest sends before it gives up on its client."""

SILENT = {"silent", "deaf", "half-a-frame", "half-a-prefix"}
GONE = {"closing", "cut-off"}


def expected(name: str) -> type[SandboxError]:
    return SandboxTimeout if name in SILENT else SandboxGone if name in GONE else ProtocolError


async def settled(awaitable):
    """The outcome of a call, as a value; it must be one of ours or an ordinary result."""
    async with asyncio.timeout(GRACE):
        try:
            return await awaitable
        except (FanfoldSandboxError, OSError) as exc:
            return exc


@pytest.fixture
def bounded():
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY, f"the client held {peak} bytes"


@pytest.mark.parametrize(("name", "attack"), hostile.ATTACKS.items(), ids=hostile.ATTACKS)
async def test_an_attack_instead_of_a_greeting_is_a_clear_error(bounded, name, attack):
    async with hostile.attacked_by(attack) as sock, asyncio.timeout(GRACE):
        with pytest.raises(expected(name)):
            await connect(sock, deadline=DEADLINE)
        assert sock.fileno() < 0


@pytest.mark.parametrize(("name", "attack"), hostile.ATTACKS.items(), ids=hostile.ATTACKS)
async def test_an_attack_after_the_greeting_is_a_clear_error(bounded, name, attack):
    async with hostile.attacked_by(hostile.after_hello(attack)) as sock, asyncio.timeout(GRACE):
        client = await connect(sock, deadline=GRACE)
        with pytest.raises(expected(name)):
            await client.call("ls", path="/", deadline=DEADLINE)
        await client.aclose()


@pytest.mark.parametrize("attack", [hostile.wrong_protocol, hostile.refusing], ids=lambda attack: attack.__name__)
async def test_a_wrong_greeting_is_a_protocol_error(attack):
    async with hostile.attacked_by(attack) as sock, asyncio.timeout(GRACE):
        with pytest.raises(ProtocolError) as failure:
            await connect(sock, deadline=GRACE)
        assert len(str(failure.value)) < 1000


async def test_an_answer_that_comes_twice_ends_the_connection():
    async def ask_often(sock):
        client = await connect(sock, deadline=GRACE)
        for _ in range(100):
            await client.call("ls", path="/")

    async with hostile.attacked_by(hostile.twice) as sock, asyncio.timeout(GRACE):
        with pytest.raises(ProtocolError):
            await ask_often(sock)


async def test_a_broken_connection_fails_every_call_that_waits_and_every_later_one():
    async with hostile.attacked_by(hostile.after_hello(hostile.garbage)) as sock, asyncio.timeout(GRACE):
        client = await connect(sock, deadline=GRACE)
        outcomes = await asyncio.gather(*(client.call("ls", path="/") for _ in range(10)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ProtocolError}
        with pytest.raises(ProtocolError):
            await client.call("ls", path="/")
        await client.aclose()


async def test_a_helper_that_does_not_read_blocks_no_call_past_its_deadline():
    async with hostile.attacked_by(hostile.after_hello(hostile.deaf)) as sock, asyncio.timeout(GRACE):
        client = await connect(sock, deadline=GRACE)
        with pytest.raises(SandboxTimeout):
            await client.call("put", b"x" * wire.PAYLOAD_CAP, path="/x", deadline=DEADLINE)
        await client.aclose()


async def test_a_helper_that_falls_silent_does_not_hold_a_call_without_a_deadline(monkeypatch):
    monkeypatch.setattr(toolbox, "PATIENCE", 0.1)
    monkeypatch.setattr(toolbox, "PING_SECONDS", 0.1)
    async with hostile.attacked_by(hostile.after_hello(hostile.silent)) as sock, asyncio.timeout(GRACE):
        client = await connect(sock, deadline=GRACE)
        with pytest.raises(SandboxTimeout):
            await client.call("wait", key="x", deadline=None)
        await client.aclose()


ANSWERS = {
    "nothing": ({}, b""),
    "bytes": ({}, b"\0\xff" * 100),
    "nulls": (dict.fromkeys(("entries", "matches", "encoding", "size", "out", "done", "taken", "exit_code", "head")), b"x"),
    "wrong-types": (
        {
            "entries": {"path": 1}, "matches": "x", "encoding": 7, "size": "large", "out": [], "done": 3, "taken": "yes",
            "exit_code": "0", "head": None, "omitted": -1, "known": 1, "occurrences": True, "truncated": "no", "file": 9,
            "outcomes": {}, "layer": "yes", "records": "all", "refused": "a",
        },
        b"x",
    ),
    "wrong-items": (
        {"entries": [1, None, []], "matches": [[], {"path": 3}], "truncated": False, "outcomes": [3, None, [1, 2, 3]],
         "layer": True, "records": 0, "refused": ["b", None, 3]},
        b"a",
    ),
    "negative": (
        {"size": -1, "out": -5, "exit_code": -1, "head": -7, "omitted": -1, "lost": -2, "start_line": -1, "end_line": -2,
         "encoding": "utf-8", "timed_out": False, "occurrences": -4, "outcomes": [[-5]]},
        b"abc",
    ),
    "enormous": (
        {"size": 2**70, "out": 2**70, "exit_code": 2**70, "head": 2**70, "omitted": 2**70, "lost": 2**70, "file": "/x",
         "encoding": "utf-8", "timed_out": False, "next_byte": 2**70, "occurrences": 2**70, "outcomes": [[2**70]],
         "layer": True, "records": 2**70, "refused": ["a"] * 2000},
        b"abc",
    ),
    "contradictions": (
        {"encoding": "utf-8", "start_line": 9, "end_line": 3, "next_offset": 1, "total_lines": 2, "truncated": True,
         "entries": [], "matches": [], "out": 100, "size": 1},
        b"abc",
    ),
    "other-encoding": ({"encoding": "rot13", "next_byte": 0, "truncation_reason": "because", "matches": [], "truncated": True},
                       b"abc"),
}  # fmt: skip


async def _take(stream):
    """A few pieces of a stream that may have no end."""
    taken = []
    async for piece in stream:
        taken.append(piece)
        if len(taken) == 5:
            break
    await stream.aclose()
    return taken


async def _started(box):
    command = await box.start(CommandSpec("true"))
    return [await settled(_take(command.output())), await settled(command.wait()), await settled(command.send(b"x"))]


async def _pieces():
    yield b"x" * 100


CALLS = {
    "ls": lambda box: box.als("/"),
    "read": lambda box: box.aread("/x"),
    "read-bytes": lambda box: box.aread("/x", byte_offset=3),
    "grep": lambda box: box.agrep("x"),
    "glob": lambda box: box.aglob("*"),
    "write": lambda box: box.awrite("/x", "x"),
    "edit": lambda box: box.aedit("/x", "a", "b"),
    "delete": lambda box: box.adelete("/x"),
    "download": lambda box: box.adownload_files(["/x"]),
    "download-small": lambda box: box.download_small([("/x", 2), ("/y", 10)]),
    "upload": lambda box: box.aupload_files([("/x", b"x")]),
    "execute": lambda box: box.aexecute("true"),
    "start": _started,
    "command": lambda box: box.command("x"),
    "download-stream": lambda box: _take(box.download_stream("/x")),
    "upload-stream": lambda box: box.upload_stream("/x", _pieces()),
    "manifest": lambda box: box.manifest("/x"),
    "changes": lambda box: box.changes("/x", {"a": FileEntry("a", "100644", 1, "0" * 40)}, folders=True),
    "apply": lambda box: box.apply("/x", [Edit("a", FileEntry("a", "100644", 1, "0" * 40), None)], bytes, call_id="x"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_of_the_wrong_shape_is_a_result_or_an_error_of_ours(answer, call):
    async with hostile.attacked_by(hostile.answering(*answer)) as sock, asyncio.timeout(GRACE):
        client = await connect(sock, deadline=GRACE)
        box = ToolboxSandbox(client, sandbox_id="sbx-hostile", workdir="/workspace")
        await settled(call(box))
        await box.aclose()


def spilling(pieces: int, sent: list[int]) -> hostile.Behaviour:
    """A helper whose manifest lies in a file that seems to have no end."""

    async def behave(reader, writer):
        await hostile.greet(reader, writer)
        piece = (b"100644 1 " + b"0" * 40 + b" x\0") * (wire.PIECE // 52)
        while len(sent) < pieces:
            request, _ = await hostile.receive(reader)
            if request["op"] == "manifest":
                await hostile.send(writer, {"id": request["id"], "ok": {"file": "/x", "size": 2**50}})
            elif request["op"] == "gets":
                await hostile.send(writer, {"id": request["id"], "ok": {"outcomes": []}})
            elif request["op"] == "get":
                sent.append(len(piece))
                await hostile.send(writer, {"id": request["id"], "ok": {"size": 2**50}}, piece)
        writer.close()

    return behave


async def test_a_manifest_without_end_is_given_up():
    sent: list[int] = []
    async with hostile.attacked_by(spilling(SPILLED, sent)) as sock:
        box = ToolboxSandbox(await connect(sock, deadline=GRACE), sandbox_id="sbx-hostile", workdir="/workspace")
        with pytest.raises(SandboxError):
            await box.manifest("/")
        assert len(sent) < SPILLED, "the client took all that was sent"
        await box.aclose()


async def test_a_download_without_end_is_given_up():
    sent: list[int] = []
    async with hostile.attacked_by(spilling(SPILLED, sent)) as sock:
        box = ToolboxSandbox(await connect(sock, deadline=GRACE), sandbox_id="sbx-hostile", workdir="/workspace")
        [response] = await box.adownload_files(["/x"])
        assert response.error is not None
        assert len(sent) < SPILLED, "the client took all that was sent"
        await box.aclose()


def giving(outcomes: list, payload: bytes, sent: list[int]) -> hostile.Behaviour:
    """A helper that answers each question for many files alike, and any for one with bytes that do not end."""

    async def behave(reader, writer):
        await hostile.greet(reader, writer)
        while True:
            request, _ = await hostile.receive(reader)
            if request["op"] == "cancel":
                continue
            sent.append(len(payload))
            ok = {"outcomes": outcomes} if request["op"] == "gets" else {"size": 2**50}
            await hostile.send(writer, {"id": request["id"], "ok": ok}, payload)

    return behave


WISHES = [(f"/{number}", 1000) for number in range(20)]


@pytest.mark.parametrize("outcomes", [[[wire.PAYLOAD_CAP]], []], ids=["together", "by-itself"])
async def test_of_a_small_file_no_more_is_kept_than_it_was_to_have(bounded, outcomes):
    sent: list[int] = []
    async with hostile.attacked_by(giving(outcomes, bytes(wire.PAYLOAD_CAP if outcomes else wire.PIECE), sent)) as sock:
        box = ToolboxSandbox(await connect(sock, deadline=GRACE), sandbox_id="sbx-hostile", workdir="/workspace")
        assert await box.download_small(WISHES) == [None] * len(WISHES)
        assert len(sent) <= 10 * len(WISHES)
        await box.aclose()


@pytest.mark.parametrize(
    "outcomes",
    [[[wire.PIECE], [-wire.PIECE]] * 10, [[wire.PIECE]] * 20, [[wire.PIECE + 1]], [[True]], [[0.5]], [["1"]]],
    ids=["back-and-forth", "more-than-came", "one-more", "truth", "half", "text"],
)
@pytest.mark.parametrize(
    "call",
    [lambda box: box.download_small(WISHES), lambda box: box.adownload_files([path for path, _ in WISHES])],
    ids=["small", "files"],
)
async def test_files_that_are_not_in_the_answer_end_the_call(bounded, outcomes, call):
    async with hostile.attacked_by(giving(outcomes, bytes(wire.PIECE), [])) as sock:
        box = ToolboxSandbox(await connect(sock, deadline=GRACE), sandbox_id="sbx-hostile", workdir="/workspace")
        with pytest.raises(ProtocolError):
            await call(box)
        await box.aclose()


async def test_files_that_were_not_asked_for_are_dropped():
    sent: list[int] = []
    async with hostile.attacked_by(giving([[1]] * 100, b"x" * 100, sent)) as sock:
        box = ToolboxSandbox(await connect(sock, deadline=GRACE), sandbox_id="sbx-hostile", workdir="/workspace")
        assert await box.download_small(WISHES) == [b"x"] * len(WISHES)
        assert len(sent) == 1, "one call was enough"
        await box.aclose()


@pytest.mark.parametrize("instead", [b"", b"tex", b"TEXT", b"text and more"])
async def test_a_pack_takes_nothing_but_what_the_manifest_told(bounded, tmp_path, instead):
    told = FileEntry("x", "100644", 4, blob_id([b"text"], 4))
    async with hostile.attacked_by(giving([[len(instead)]], instead, [])) as sock:
        box = ToolboxSandbox(await connect(sock, deadline=GRACE), sandbox_id="sbx-hostile", workdir="/workspace")
        with pytest.raises(PatchRefused, match="'x' is not what the sandbox said"):
            await pack([told], [], Files(box, "/workspace"), tmp_path / "pack", base="0" * 40, cap=wire.PIECE)
        assert not [*tmp_path.iterdir()]
        await box.aclose()
