"""A Dockerfile as the image of a sandbox: what a spec says of it, and what is refused before any platform sees it.

It may be a stranger's. So it is read here as far as it decides what the build may reach: which images it stands on, whether it
runs anything, and whether it asks the builder itself to fetch something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from sandboxes.errors import InvalidSpec, Unsupported

TEXT_CAP: Final = 64 * 1024
"""Bytes of a Dockerfile."""
_MAKES: Final = ("ADD", "ARG", "COPY", "ENV", "FROM", "RUN", "SHELL", "USER", "WORKDIR")
_NOTES: Final = ("CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "STOPSIGNAL", "VOLUME")
_SPACE: Final = " \t"
_STRANGE: Final = re.compile(r"[^\S \t\r\n]|\r(?!\n)|[\x00-\x08\x0e-\x1f\x7f]")
"""What one parser takes for the end of a line, or for blank, and another does not."""
_DIRECTIVE: Final = re.compile(r"#\s*(\w+)\s*=\s*(.*\S)\s*")
_FRONTEND: Final = re.compile(r"docker/dockerfile(:[\w.-]+)?")
_FROM: Final = re.compile(r"(?:--\S+\s+)*(\S+)(?:\s+as\s+(\S+))?", re.IGNORECASE)
_OF_IMAGE: Final = re.compile(r"(?:--\S+\s+)*?--from=(\S+)")
_HEREDOC: Final = re.compile(r"<<-?[\"']?\w")
_FETCHES: Final = re.compile(r"://|\bgit@|\$")


class Dockerfile(BaseModel):
    """An image that is built where the sandbox is made, of files of this machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = None
    """The Dockerfile."""
    context: str | None = None
    """The folder that `COPY` takes from. None: that of the Dockerfile. Its `.dockerignore` is heeded."""
    archive: str | None = None
    """Instead of both: an archive that `context.pack` has written of them."""
    network: Literal["none", "public"] | None = None
    """What `RUN` may reach. None: what the sandbox may."""

    @model_validator(mode="after")
    def _one_source(self) -> Dockerfile:
        if (self.path is None) == (self.archive is None) or (self.archive is not None and self.context is not None):
            raise ValueError("give a Dockerfile by its path, with a context if that is another folder than its own")
        return self


@dataclass(frozen=True)
class Instruction:
    """An instruction, with its continued lines as one."""

    word: str
    """In capitals."""
    rest: str
    end: int
    """How many lines of the file end with it."""


def instructions(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile. Raises `InvalidSpec` for what is none, and for what builders may read in two ways."""
    if found := _STRANGE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise InvalidSpec(f"Dockerfile, line {line}: the character {found[0]!a} is refused")
    return [_checked(one) for one in _logical(text)]


def _logical(text: str) -> Iterator[Instruction]:
    whole, lines = "", text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip(_SPACE) or line.lstrip(_SPACE).startswith("#"):
            continue  # also between continued lines
        whole += line.rstrip(_SPACE)
        if whole.endswith("\\"):
            whole = whole[:-1]
        else:
            yield _instruction(whole, number)
            whole = ""
    if whole:
        yield _instruction(whole, len(lines))


def _instruction(whole: str, end: int) -> Instruction:
    word, *rest = whole.split(maxsplit=1) or [""]
    return Instruction(word.upper(), "".join(rest), end)


def _checked(one: Instruction) -> Instruction:
    at = f"Dockerfile, line {one.end}"
    if one.word == "ONBUILD":
        raise InvalidSpec(f"{at}: ONBUILD is refused: write what it is to do into the Dockerfile that is built on this one")
    if one.word not in (*_MAKES, *_NOTES):
        raise InvalidSpec(f"{at}: {one.word[:40]!r} is no instruction of a Dockerfile")
    if one.word in ("RUN", "COPY", "ADD") and _HEREDOC.search(one.rest):
        raise InvalidSpec(f"{at}: here-documents are not built everywhere: put the text into a file of the context")
    if one.word == "ADD" and _FETCHES.search("".join(one.rest.split())):
        raise InvalidSpec(
            f"{at}: ADD would let the builder itself fetch something, past the network of the sandbox:"
            " COPY a file of the context, or fetch it with RUN"
        )
    return one


def check(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile that can be built. Raises `InvalidSpec` with the line that is refused."""
    _check_directives(text)
    found = instructions(text)
    first = next((one.word for one in found if one.word != "ARG"), None)
    if first != "FROM":
        raise InvalidSpec("Dockerfile: it does not begin with FROM")
    return found


def _check_directives(text: str) -> None:
    """Comments at the top may choose another builder, or another way to continue lines than is read here."""
    for number, line in enumerate(text.splitlines(), 1):
        told = _DIRECTIVE.fullmatch(line.strip())
        if told is None and not line.startswith("#!"):  # which is skipped
            return
        if told is None:
            continue
        name, value = told[1].lower(), told[2]
        if (name == "syntax" and not _FRONTEND.fullmatch(value)) or (name == "escape" and value != "\\"):
            raise InvalidSpec(f"Dockerfile, line {number}: `# {name}={value[:80]}` is refused: leave it out")


def bases(text: str) -> list[str]:
    """The images that it takes something from, as they are written: neither its own stages nor `scratch`."""
    found, stages, count = [], {"scratch"}, 0
    for one in instructions(text):
        expression = {"FROM": _FROM, "COPY": _OF_IMAGE}.get(one.word)
        told = expression.match(one.rest) if expression is not None else None
        if told is not None and told[1].lower() not in stages:
            found.append(told[1])
        if told is not None and one.word == "FROM":
            stages |= {(told[2] or "scratch").lower(), str(count)}
            count += 1
    return found


def check_reach(text: str, network: str, platform: str) -> None:
    """For clouds, whose builds always have a network: refuse to run anything there that may have none. Raises `Unsupported`.

    Their SDKs bring what COPY names of the context, and nothing for ADD.
    """
    if any(one.word == "ADD" for one in instructions(text)):
        raise Unsupported(f"provider '{platform}' has no ADD in a Dockerfile: use COPY")
    if network != "public" and any(one.word == "RUN" for one in instructions(text)):
        raise Unsupported(
            f"provider '{platform}' builds with a network, and this Dockerfile has RUN while `network` is {network}:"
            " say `network: public` for the Dockerfile alone, or give an image that is built"
        )
