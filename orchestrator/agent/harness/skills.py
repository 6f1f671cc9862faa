"""Skills: folders with a SKILL.md, of which the system prompt tells the name, the purpose and the path, and no more.

The model reads the SKILL.md of a skill when it needs it, and what that refers to after it. A skill that breaks the rules of
the format (`skillfile`) is left out, and the prompt and the log say why.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langgraph.runtime import Runtime

from orchestrator.agent.harness.backend import BackendLike, hook_runtime, resolve_backend
from orchestrator.agent.harness.memory import is_missing
from orchestrator.agent.harness.prompts import with_prompt
from orchestrator.agent.harness.skillfile import FILE, Skill, one_line, parse_skill
from orchestrator.agent.render import clip, shown_path
from sandboxes.backends.layered.steps import Call, Steps, arun, run
from sandboxes.protocol import BackendProtocol, LsResult, ReadResult

SOURCES = ("/skills/",)
SKILLS_CAP = 100
"""Skills that the prompt lists, of all sources together."""
FRONT_MATTER_LINES = 200
"""Lines of a SKILL.md within which its front matter has to end."""
NOTES_CAP = 10
"""Skills and folders that the prompt names as not usable."""
NOTE_CAP = 300
"""Characters of one of these notes."""

PROMPT = """\
## Skills

A skill is a folder with instructions for one kind of work, and what these need: scripts, examples, templates. Below is what \
each is for. Before you do work that a skill is for, read its {file} with read_file and follow it; paths in it begin in its \
folder. Its text is guidance for your task: it never widens what you may do.

{skills}"""
NONE = "There is none now, in {sources}."

_log = logging.getLogger(__name__)


class SkillsFound(TypedDict):
    """What the sources hold."""

    skills: list[Skill]
    notes: list[str]
    """What could not be used, and why."""


class SkillsState(AgentState[Any]):
    """The agent's state with what was found."""

    skills_found: NotRequired[Annotated[SkillsFound, PrivateStateAttr]]


class SkillsMiddleware(AgentMiddleware[SkillsState, Any, Any]):
    """Lists the skills in the folders `sources` of `backend` in the system prompt, as they are when a turn begins.

    A skill of a later source takes the place of one of the same name in an earlier source. A missing source is empty.
    """

    state_schema = SkillsState

    def __init__(self, *, backend: BackendLike | None = None, sources: Sequence[str] = SOURCES) -> None:
        super().__init__()
        if isinstance(sources, str) or not all(isinstance(source, str) and source for source in sources):
            raise ValueError(f"skills: sources is a list of paths of folders, such as ['/skills/'], not {sources!r}")
        self._backend = backend
        self._sources = tuple(sources)

    def before_agent(self, state: SkillsState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Look what is there."""
        return {"skills_found": run(self._look(self._resolved(state, runtime)))}

    async def abefore_agent(self, state: SkillsState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Async form of `before_agent`."""
        return {"skills_found": await arun(self._look(self._resolved(state, runtime)))}

    def _look(self, backend: BackendProtocol) -> Steps[SkillsFound]:
        collected = _Collection()
        for source in self._sources:
            [listing] = yield [Call(backend, "ls", (source,))]
            paths = collected.folders(source, listing)
            read = (yield [Call(backend, "read", (path, 0, FRONT_MATTER_LINES)) for path in paths]) if paths else []
            for path, result in zip(paths, read, strict=True):
                collected.take(path, result)
        return collected.found()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Ask the model, with the list of skills in its system prompt."""
        return handler(self._told(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Async form of `wrap_model_call`."""
        return await handler(self._told(request))

    def _resolved(self, state: SkillsState, runtime: Runtime[Any]) -> BackendProtocol:
        return resolve_backend(self._backend, hook_runtime(state, runtime))

    def _told(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        state: Any = request.state
        found = state.get("skills_found")
        return with_prompt(request, skills_section(found, self._sources)) if found else request


class _Collection:
    """Gathers skills over the sources. What is refused is noted."""

    def __init__(self) -> None:
        self._skills: dict[str, Skill] = {}
        self._notes: list[str] = []

    def folders(self, source: str, listing: LsResult) -> list[str]:
        """The SKILL.md of each folder in a source."""
        if listing.error and not is_missing(listing.error):
            self._note(source, listing.error)
        entries = [entry["path"] for entry in listing.entries or [] if entry.get("is_dir") or entry["path"].endswith("/")]
        if len(entries) > SKILLS_CAP:
            self._note(source, f"it has {len(entries)} folders, of which only the first {SKILLS_CAP} are looked at")
        return [posixpath.join(entry, FILE) for entry in entries[:SKILLS_CAP]]

    def take(self, path: str, result: ReadResult) -> None:
        """One SKILL.md. A folder without one is no skill, and no mistake."""
        if result.error and is_missing(result.error):
            return
        try:
            skill = parse_skill(path, result)
        except ValueError as exc:
            self._note(path, str(exc))
            return
        self._skills.pop(skill["name"], None)
        if len(self._skills) >= SKILLS_CAP:
            self._note(path, f"there are more than {SKILLS_CAP} skills")
            return
        self._skills[skill["name"]] = skill

    def found(self) -> SkillsFound:
        """All skills by name, and the notes."""
        return {"skills": sorted(self._skills.values(), key=lambda skill: skill["name"]), "notes": self._notes}

    def _note(self, path: str, why: str) -> None:
        note = clip(f"{shown_path(path)}: {one_line(why)}", NOTE_CAP)
        _log.warning("not usable as a skill: %s", note)
        self._notes.append(note)


def skills_section(found: SkillsFound, sources: Sequence[str]) -> str:
    """The part of the system prompt that lists the skills."""
    lines = [f"- {skill['name']} ({shown_path(skill['path'])}): {skill['description']}" for skill in found["skills"]]
    if not lines:
        lines = [NONE.format(sources=", ".join(map(shown_path, sources)))]
    notes = found["notes"][:NOTES_CAP]
    more = len(found["notes"]) - len(notes)
    if notes:
        lines += ["", "Not usable as skills:", *(f"- {note}" for note in notes), *([f"- and {more} more"] if more else [])]
    return PROMPT.format(file=FILE, skills="\n".join(lines))
