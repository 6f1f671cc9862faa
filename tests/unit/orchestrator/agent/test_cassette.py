"""Recording any model, and replaying it: the same answers, the same events, no keys, a clear word when a request changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from orchestrator.agent.cassette import Cassette, Deck, Exchange, Response, as_yaml, dump_cassette, load_cassette
from orchestrator.agent.recorded import RecordingChatModel, ReplayChatModel, Tape
from orchestrator.agent.request import describe_tools, normalize, steady
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel
from orchestrator.errors import BadInput, TaskFailed

KEY = "key-0123456789-very-secret"
OTHER_KEY = "sk-" + "a1b2c3d4" * 5


def recording(inner: BaseChatModel, secret: str | None = None) -> RecordingChatModel:
    return RecordingChatModel(inner=inner, tape=Tape("c.yaml", Cassette(model="openai:x"), secret))


def replay(recorded: RecordingChatModel) -> ReplayChatModel:
    """A model that plays what was recorded, after a round trip through the file."""
    (data,) = recorded.tape.files().values()
    return ReplayChatModel(deck=Deck("c.yaml", load_cassette(data, "c.yaml")))


def said(message: BaseMessage) -> tuple[Any, ...]:
    assert isinstance(message, AIMessage)
    calls = [(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    return message.content, calls, message.usage_metadata


async def joined(chunks: Any) -> BaseMessage:
    whole = None
    async for chunk in chunks:
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    return whole


def scripted() -> ScriptedChatModel:
    script = """
        turns:
          - text: "one\\n two \\n"
            tool_calls: [{id: a, name: ls, args: {path: "é\\n", deep: [{n: 1.5, none: null}]}}, {id: b, name: ls}]
            usage: {input_tokens: 7, output_tokens: 3}
    """
    return ScriptedChatModel(script=load_script(script.encode(), "s.yaml"))


def calling() -> GenericFakeChatModel:
    call = {"id": "x", "name": "ls", "args": {"path": "."}, "type": "tool_call"}
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    return GenericFakeChatModel(messages=iter([AIMessage("look at this", tool_calls=[call], usage_metadata=usage)]))


def blocks() -> GenericFakeChatModel:
    content: Any = [{"type": "thinking", "thinking": "hm", "signature": "s1"}, {"type": "text", "text": "yes"}]
    return GenericFakeChatModel(messages=iter([AIMessage(content)]))


def streaming() -> FakeListChatModel:
    return FakeListChatModel(responses=["a streamed answer\nof two lines"])


ASK: dict[str, Callable[[BaseChatModel, list[BaseMessage]], Any]] = {
    "invoke": lambda chat, messages: _wrap(chat.invoke(messages)),
    "ainvoke": lambda chat, messages: chat.ainvoke(messages),
    "stream": lambda chat, messages: joined(_async(chat.stream(messages))),
    "astream": lambda chat, messages: joined(chat.astream(messages)),
}


async def _wrap(value: Any) -> Any:
    return value


async def _async(items: Any) -> Any:
    for item in items:
        yield item


MADE_AND_ASKED = [
    *((make, how) for make in (scripted, calling, streaming) for how in ASK),
    *((blocks, how) for how in ("invoke", "ainvoke")),  # langchain's fake model streams text only
]


@pytest.mark.parametrize("asked", ASK)
@pytest.mark.parametrize(("make", "how"), MADE_AND_ASKED)
async def test_a_replay_says_what_was_said(make: Callable[[], BaseChatModel], how: str, asked: str) -> None:
    recorded = recording(make())
    answer = await ASK[how](recorded, [HumanMessage("go")])
    assert said(await ASK[asked](replay(recorded), [HumanMessage("go")])) == said(answer)


def test_recording_changes_nothing() -> None:
    assert said(recording(scripted()).invoke("go")) == said(scripted().invoke("go"))


class TooledFake(GenericFakeChatModel):
    """Remembers what was bound, as a provider's model would send it."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[tool["name"] for tool in describe_tools(tools)], **kwargs)


def ls(path: str) -> str:
    """List."""
    return path


def test_tools_are_bound_to_the_model_and_are_part_of_the_request() -> None:
    recorded = recording(TooledFake(messages=iter([AIMessage("hi")])))
    assert recorded.bind_tools([ls], tool_choice="any").invoke("go").text == "hi"
    cassette = recorded.tape.cassette()
    assert cassette.tools["t1"][0]["name"] == "ls"
    assert cassette.exchanges[0].settings == {"tool_choice": "any"}

    assert replay(recorded).bind_tools([ls], tool_choice="any").invoke("go").text == "hi"
    with pytest.raises(TaskFailed, match=r"-- name: ls"):
        replay(recorded).invoke("go")


async def test_an_agent_run_is_replayed_without_its_model(agents: Any) -> None:
    script = """
        turns:
          - text: I count.
            tool_calls:
              - {id: date, name: execute, args: {command: date --iso-8601=ns}}
              - {id: ls, name: ls, args: {path: .}}
            usage: {input_tokens: 10, output_tokens: 2}
          - {text: "done", expect: {result: date, contains: "20"}, usage: {input_tokens: 12, output_tokens: 1}}
    """
    (agents.backend.folder / "f").write_text("x")
    first = await agents.run(script, model="record:cassettes/c.yaml=scripted:s.yaml")
    told = [event for event in agents.told() if event[0] != "tool.result"]
    (agents.backend.folder / "f").unlink()
    (agents.backend.folder / "f").write_text("y")

    second = await agents.run(first.artifacts["c.yaml"], model="replay:cassettes/c.yaml")
    assert (second.text, second.usage, second.steps) == (first.text, first.usage, first.steps)
    assert [event for event in agents.told() if event[0] != "tool.result"] == told


async def test_a_replay_in_a_changed_workspace_fails_with_the_difference(agents: Any) -> None:
    script = "turns: [{tool_calls: [{id: a, name: execute, args: {command: cat f}}]}, {text: done}]"
    (agents.backend.folder / "f").write_text("old text\n")
    recorded = await agents.run(script, model="record:c.yaml=scripted:s.yaml")
    (agents.backend.folder / "f").write_text("new text\n")
    with pytest.raises(TaskFailed) as caught:
        await agents.run(recorded.artifacts["c.yaml"], model="replay:c.yaml")
    message = str(caught.value)
    assert message.startswith("c.yaml has no answer to this request; it differs from the one recorded as exchange 2:\n")
    assert "-    old text\n+    new text\n" in message
    assert "record:c.yaml=scripted:s.yaml" in message


def test_a_request_beyond_the_recording_is_told() -> None:
    recorded = recording(FakeListChatModel(responses=["a", "b"]))
    assert [recorded.invoke("go").text, recorded.invoke("go").text] == ["a", "b"]
    played = replay(recorded)
    assert [played.invoke("go").text, played.invoke("go").text] == ["a", "b"], "the same request, in order"
    with pytest.raises(TaskFailed, match="was recorded 2 times and is now asked again"):
        played.invoke("go")
    with pytest.raises(TaskFailed, match=r"c\.yaml ran out: it holds 2 answers"):
        played.invoke("more")


def test_conversations_side_by_side_are_kept_apart() -> None:
    recorded = recording(FakeListChatModel(responses=["a1", "b1", "a2", "b2"]))
    one, two = [HumanMessage("a")], [HumanMessage("b")]
    for _ in range(2):
        for messages in (one, two):
            messages += [recorded.invoke(messages), HumanMessage("on")]
    assert [exchange.after for exchange in recorded.tape.cassette().exchanges] == [0, 0, 1, 2]
    played = replay(recorded)
    for messages in (two, one):
        assert played.invoke(messages[:3]).text == messages[3].text
        assert played.invoke(messages[:1]).text == messages[1].text


def test_the_nearest_recorded_request_is_shown() -> None:
    recorded = recording(FakeListChatModel(responses=["a1", "b1", "a2", "b2"]))
    for start in "ab":
        recorded.invoke([HumanMessage(start)])
    for start in "ab":
        recorded.invoke([HumanMessage(start), AIMessage(f"{start}1"), HumanMessage(f"on with {start}")])
    with pytest.raises(TaskFailed, match="recorded as exchange 4:") as caught:
        replay(recorded).invoke([HumanMessage("b"), AIMessage("b1"), HumanMessage("on with c")])
    assert "-  text: on with b\n+  text: on with c" in str(caught.value)


def test_each_text_of_a_conversation_is_on_the_tape_once() -> None:
    recorded = recording(FakeListChatModel(responses=["ok"]))
    messages: list[BaseMessage] = [SystemMessage("the system prompt")]
    for number in range(20):
        messages.append(HumanMessage(f"question {number}"))
        messages.append(recorded.invoke(messages))
    (data,) = recorded.tape.files().values()
    assert data.count(b"the system prompt") == 1
    assert data.count(b"question 7\n") == 1


def test_keys_are_never_on_the_tape() -> None:
    answer = AIMessage(f"your key is {KEY}", tool_calls=[{"id": "1", "name": "ls", "args": {"path": KEY}, "type": "tool_call"}])
    recorded = recording(TooledFake(messages=iter([answer])), secret=KEY)
    bound = recorded.bind_tools([ls], api_key=KEY, extra_headers={"x-api-key": KEY}, temperature=0.5)
    bound.invoke([SystemMessage(f"use {KEY}"), HumanMessage(f"and {OTHER_KEY}")])
    (data,) = recorded.tape.files().values()
    assert KEY.encode() not in data
    assert OTHER_KEY.encode() not in data
    assert recorded.tape.cassette().exchanges[0].settings == {"temperature": 0.5}


def test_a_call_that_fails_is_not_recorded() -> None:
    recorded = recording(FakeListChatModel(responses=["abc"], error_on_chunk_number=1))
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the model raises
        list(recorded.stream("go"))
    assert recorded.tape.cassette().exchanges == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 2026-11-21T01:24:14Z", "at 2027-01-02T13:00:00.123456+01:00"),
        ("on 2026-11-21", "on 2027-01-02"),
        ("Ran 14 tests in 0.002s", "Ran 14 tests in 1.5s"),
        ("took 12 ms", "took 9 ms"),
        ("<A at 0x7f3a5c001230>", "<A at 0x7f9911220000>"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-426614174000"),
        ("in /tmp/tmpab12cd_x/f", "in /tmp/tmpzz99zz00/f"),
        ("sandbox sbx-0123456789abcdef", "sandbox sbx-fedcba9876543210"),
    ],
)
def test_what_changes_from_run_to_run_does_not_count(one: str, other: str) -> None:
    assert steady(one) == steady(other)


def test_the_ids_of_tool_calls_do_not_count() -> None:
    def conversation(call_id: str) -> list[BaseMessage]:
        call = {"id": call_id, "name": "ls", "args": {}, "type": "tool_call"}
        content: Any = [{"type": "text", "text": "x"}, {"type": "tool_use", "id": call_id, "name": "ls", "input": {}}]
        return [HumanMessage("go"), AIMessage(content, tool_calls=[call]), ToolMessage("out", tool_call_id=call_id)]

    keys = {normalize(conversation(call_id), (), None, {}).key for call_id in ("toolu_1", "call_2")}
    assert len(keys) == 1


@pytest.mark.parametrize(
    "other",
    [
        normalize([HumanMessage("x"), HumanMessage("y")], (), None, {}),
        normalize([HumanMessage("y")], (), None, {}),
        normalize([SystemMessage("x")], (), None, {}),
        normalize([HumanMessage("x")], describe_tools([ls]), None, {}),
        normalize([HumanMessage("x")], (), ["stop"], {}),
        normalize([HumanMessage("x")], (), None, {"temperature": 1}),
    ],
)
def test_everything_else_counts(other: Any) -> None:
    assert normalize([HumanMessage("x")], (), None, {}).key != other.key
    assert normalize([HumanMessage("x")], (), None, {"timeout": 3}).key == normalize([HumanMessage("x")], (), None, {}).key


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(content=st.text(), args=st.dictionaries(st.text(max_size=5), json_values, max_size=3), text=st.text())
def test_any_text_survives_the_file(content: str, args: dict[str, Any], text: str) -> None:
    response = Response(content=content, tool_calls=[{"id": "1", "name": "n", "args": args}])
    cassette = Cassette(model="m", exchanges=[Exchange(messages=[{"role": "user", "text": text}], response=response)])
    assert load_cassette(dump_cassette(cassette), "c.yaml") == cassette


def test_texts_of_several_lines_can_be_read_in_the_file() -> None:
    assert as_yaml({"text": "one\ntwo\n"}) == "text: |\n  one\n  two\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("exchanges: [{after: 1, response: {}}]", "exchange 1 continues exchange 1, which is not before it"),
        ("exchanges: [{tools: t1, response: {}}]", "has the tools 't1', which are not in the cassette"),
        ("exchange: []", "unknown key; did you mean 'exchanges'?"),
        ("exchanges: [{messages: []}]", "response: is missing"),
        ("exchanges: [{response: {content: 3}}]", "exchanges.0.response.content"),
        ("{}", None),
    ],
)
def test_what_is_wrong_with_a_cassette_is_told(text: str, told: str | None) -> None:
    if told is None:
        assert load_cassette(text.encode(), "c.yaml").exchanges == []
        return
    with pytest.raises(BadInput) as caught:
        load_cassette(text.encode(), "c.yaml")
    assert told in str(caught.value)
    assert str(caught.value).startswith("c.yaml")


def test_the_cassette_of_the_docs_can_be_read(tmp_path: Path) -> None:
    value = {"exchanges": [{"messages": [{"role": "user", "text": "go"}], "response": {"content": "hi"}}]}
    played = ReplayChatModel(deck=Deck("c.yaml", load_cassette(json.dumps(value).encode(), "c.yaml")))
    assert played.invoke("go").text == "hi"
