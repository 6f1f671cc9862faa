"""One long conversation that crosses every feature of the harness: the same transcript in every form of running it."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from orchestrator.agent import FilesystemPermission, create_deep_agent, mounts_for
from orchestrator.agent.harness import summarization
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel
from sandboxes.backends import StateBackend
from sandboxes.portal import portal
from sandboxes.protocol import BackendProtocol
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.local import LocalProvider

SCRIPTS = Path(__file__).with_name("long_conversation")
PERMISSIONS = [FilesystemPermission(["read", "write"], ["/workspace/secret"], "deny")]
LIMIT = 40
"""Messages at which the conversation is summarized."""
CONFIG: Any = {"configurable": {"thread_id": "long"}, "recursion_limit": 500}
DECISIONS = {
    "decisions": [
        {"type": "approve"},
        {"type": "edit", "edited_action": {"name": "publish", "args": {"text": "better"}}},
        {"type": "reject", "message": "not this one"},
        {"type": "respond", "message": "I did it by hand"},
    ]
}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
FILES = {
    "/workspace/AGENTS.md": b"Indent with tabs.\n",
    "/workspace/data.txt": b"line 1\nline 2\nthe needle is here\nline 4\nline 5\n",
    "/workspace/old.txt": b"old\n",
    "/workspace/dot.png": PNG,
    "/workspace/skills/pdf/SKILL.md": b"---\nname: pdf\ndescription: Reads PDF files.\n---\nStep one.\n",
}
SECRET = ("/workspace/secret/key.txt", b"42\n")
DANGLING = AIMessage("", tool_calls=[{"id": "lost", "name": "ls", "args": {"path": "/"}}])
BEGINNING = {"messages": [HumanMessage("Look around."), DANGLING, HumanMessage("Now do all of it.")]}


class Speaker(ScriptedChatModel):
    """Follows its script, and says what it is asked to summarize in one sentence. Keeps the system prompts it was given."""

    prompts: list[str] = []

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        if run_manager and run_manager.metadata.get("lc_source") == "summarization":
            return ChatResult(generations=[ChatGeneration(message=AIMessage("A plan was made and followed."))])
        self.prompts.append(str(messages[0].text))
        return super()._generate(messages, stop, run_manager, **options)


def speaker(name: str, **words: str) -> Speaker:
    script = (SCRIPTS / name).read_text()
    for word, meaning in words.items():
        script = script.replace(word, meaning)
    return Speaker(script=load_script(script.encode(), name), file=name, prompts=[])


class Place:
    """Where a conversation takes place: a backend with its files, and what commands answer there."""

    def __init__(self, backend: BackendProtocol, root: str, ran: str, hidden: str) -> None:
        self.backend = backend
        self.words = {"ROOT": root, "RAN": ran, "HIDDEN": hidden}


@pytest.fixture(params=["sandbox", "state"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Place]]:
    """Makes a place of its own for each conversation."""
    if request.param == "state":
        yield lambda: _state()
        return
    provider = LocalProvider(tmp_path / "home")
    handles: list[Any] = []
    attached: list[Any] = []

    def make() -> Place:
        handles.append(portal.run(provider.create(SandboxSpec(mounts=mounts_for(PERMISSIONS)))))
        attached.append(portal.run(provider.attach(handles[-1])))
        return _sandbox(attached[-1])

    yield make
    for sandbox in attached:
        portal.run(sandbox.aclose())
    for handle in handles:
        portal.run(provider.destroy(handle))


def _state() -> Place:
    backend = StateBackend()
    assert not any(answer.error for answer in backend.upload_files([*FILES.items(), SECRET]))
    return Place(backend, "", "no command can be run here", "no command can be run here")


def _sandbox(sandbox: Any) -> Place:
    assert not any(answer.error for answer in sandbox.upload_files(list(FILES.items())))
    return Place(sandbox, "/tmp/fanfold", "Command succeeded with exit code 0", "Command failed")


class Conversation:
    """The agent of the conversation, and what can be said of it when it has ended."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.model = speaker("main.yaml", **place.words)
        self.published: list[str] = []
        self.events: list[Any] = []
        self.agent: Any = create_deep_agent(
            self.model,
            [self._flood, self._publish],
            system_prompt="Be thorough.",
            middleware=[summarization(self.model, place.backend, trigger=("messages", LIMIT), keep=("messages", 6))],
            subagents=[_subagent("finder"), _subagent("writer"), _breaker()],
            checkpointer=InMemorySaver(),
            backend=place.backend,
            interrupt_on={"publish": True},
            permissions=PERMISSIONS,
            memory=["/workspace/AGENTS.md"],
            skills=["/workspace/skills/"],
        )

    @property
    def _flood(self) -> Callable[[int], str]:
        def flood(lines: int) -> str:
            """Say very much."""
            return "".join(f"line {number}\n" for number in range(1, lines + 1))

        return flood

    @property
    def _publish(self) -> Callable[[str], str]:
        def publish(text: str) -> str:
            """Publish a text."""
            self.published.append(text)
            return f"published {text}"

        return publish

    def transcript(self) -> list[Any]:
        """What is left of the conversation at its end, without what no two runs have in common."""
        return [_told(message) for message in self.agent.get_state(CONFIG).values["messages"]]

    def paused(self) -> bool:
        return bool(self.agent.get_state(CONFIG).interrupts)


def _subagent(name: str) -> Any:
    return {"name": name, "description": f"A {name}.", "system_prompt": f"You are a {name}.", "model": speaker(f"{name}.yaml")}


def _breaker() -> Any:
    def fail(_: Any) -> Any:
        raise RuntimeError("boom")

    return {"name": "breaker", "description": "Always fails.", "runnable": RunnableLambda(fail)}


def _told(message: Any) -> Any:
    content = message.content if isinstance(message.content, str) else [dict(block) for block in message.content]
    plain = re.sub(r"\d{4}-\d\d-\d\dT[\d:]{8}Z", "TIME", str(content))
    calls = [(call["id"], call["name"], call["args"]) for call in getattr(message, "tool_calls", [])]
    return message.type, re.sub(r"'id': '[^']+'", "ID", plain), calls, getattr(message, "status", None)


def _inputs(conversation: Conversation) -> Iterator[Any]:
    """The beginning, then an answer to each pause."""
    yield BEGINNING
    while conversation.paused():
        yield Command(resume=DECISIONS)


def invoke(conversation: Conversation) -> None:
    for given in _inputs(conversation):
        conversation.agent.invoke(given, CONFIG)


def stream(conversation: Conversation) -> None:
    for given in _inputs(conversation):
        conversation.events += conversation.agent.stream(given, CONFIG, stream_mode="updates")


# The async forms run on the loop that the sandbox lives on, where a sync call of it is refused: none may be made.


def ainvoke(conversation: Conversation) -> None:
    async def run() -> None:
        for given in _inputs(conversation):
            await conversation.agent.ainvoke(given, CONFIG)

    portal.run(run())


def astream(conversation: Conversation) -> None:
    async def run() -> None:
        for given in _inputs(conversation):
            async for event in conversation.agent.astream(given, CONFIG, stream_mode="updates"):
                conversation.events.append(event)

    portal.run(run())


FORMS: list[Callable[[Conversation], None]] = [invoke, stream, ainvoke, astream]


def held(form: Callable[[Conversation], Any], place: Place) -> Conversation:
    conversation = Conversation(place)
    form(conversation)
    return conversation


def test_the_conversation_comes_to_its_end_with_every_feature_used(new_place: Callable[[], Place]) -> None:
    conversation = held(invoke, new_place())
    transcript = conversation.transcript()
    assert transcript[-1][1] == "All done."
    assert "A plan was made and followed." in transcript[0][1], "it was summarized"
    assert sorted(conversation.published) == ["better", "first"]
    state = conversation.agent.get_state(CONFIG).values
    assert [todo["status"] for todo in state["todos"]] == ["completed", "completed"]
    [memory] = conversation.place.backend.download_files(["/workspace/AGENTS.md"]) if not state.get("files") else [None]
    changed = memory.content if memory else state["files"]["/workspace/AGENTS.md"]["content"].encode()
    assert changed == b"Indent with spaces.\n"


def test_the_model_sees_memory_and_skills_and_a_repaired_history(new_place: Callable[[], Place]) -> None:
    conversation = held(stream, new_place())
    prompt = conversation.model.prompts[0]
    assert prompt.startswith("Be thorough.")
    assert "Indent with tabs." in prompt
    assert "- pdf (/workspace/skills/pdf/SKILL.md): Reads PDF files." in prompt
    assert "Step one." not in prompt
    assert len(set(conversation.model.prompts)) == 1, "it is the same in the whole turn, so that it can be cached"
    told = [message for event in conversation.events for message in _messages(event)]
    [lost] = [message for message in told if isinstance(message, ToolMessage) and message.tool_call_id == "lost"]
    assert lost.status == "error"


def _messages(event: dict[str, Any]) -> Iterator[Any]:
    for update in event.values():
        for part in update if isinstance(update, list) else [update]:
            if isinstance(part, dict):
                yield from part.get("messages") or []


@pytest.mark.timeout(300)
def test_every_form_of_running_it_gives_the_same_transcript(new_place: Callable[[], Place]) -> None:
    conversations = [held(form, new_place()) for form in FORMS]
    first, *others = [conversation.transcript() for conversation in conversations]
    for other in others:
        assert other == first
    assert [sorted(conversation.published) for conversation in conversations] == [["better", "first"]] * 4


def test_both_streams_tell_the_same(new_place: Callable[[], Place]) -> None:
    told = []
    for form in (stream, astream):
        conversation = held(form, new_place())
        told.append([_told(message) for event in conversation.events for message in _messages(event)])
    assert sorted(map(str, told[0])) == sorted(map(str, told[1]))


def test_those_who_follow_the_stream_see_each_answer_once_but_for_what_a_human_edits(new_place: Callable[[], Place]) -> None:
    conversation = held(stream, new_place())
    told = [message for event in conversation.events for message in _messages(event)]
    answers = [message.id for message in told if isinstance(message, AIMessage) and message.tool_calls != DANGLING.tool_calls]
    turns = load_script((SCRIPTS / "main.yaml").read_bytes(), "main.yaml").turns
    assert len(set(answers)) == len(turns)
    assert len(answers) == len(turns) + 1
