"""Sandboxes of the `deepagents` package as ours, and which of our classes a backend of theirs becomes."""

from __future__ import annotations

import errno
import shlex
from typing import Any, Final

from deepagents import backends as theirs
from deepagents.backends import protocol as d

from sandboxes import protocol as p
from sandboxes.backends.layered.steps import Steps, arun, run
from sandboxes.backends.released import as_ours as o
from sandboxes.backends.released.imported import Imported, Lasting, takes
from sandboxes.errors import FanfoldSandboxError, SandboxError
from sandboxes.toolbox.helper import text

NOT_RUN: Final = 126
"""The exit code of a command that was not run, as a shell's for what it may not execute."""
_LOOK: Final = """
path={}
if [ -d "$path" ]; then echo folder
elif [ -e "$path" ] || [ -L "$path" ]; then echo file
else
    until path=$(dirname "$path"); [ -e "$path" ]; do :; done
    if [ -d "$path" ]; then echo nothing; else echo blocked; fi
fi
"""
"""What is at an absolute path; `blocked` when a file is where a folder above it should be."""


class Shell(Imported, p.SandboxBackendProtocol):
    """A backend with commands, whose files are not those that its commands see: they may have other paths."""

    theirs: Any

    @property
    def _owner(self) -> Any:
        return self.theirs.default if isinstance(self.theirs, theirs.CompositeBackend) else self.theirs

    @property
    def id(self) -> str:
        """See the protocol."""
        return str(self._owner.id)

    @property
    def isolated(self) -> bool:
        """Whether commands are kept from this machine. A run refuses a backend that says no, unless it was allowed."""
        return not isinstance(self._owner, theirs.LocalShellBackend)

    def execute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        """See the protocol."""
        return run(self._execute(command, timeout))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        """See the protocol."""
        return await arun(self._execute(command, timeout))

    def _execute(self, command: str, timeout: int | None) -> Steps[p.ExecuteResponse]:
        if timeout is not None and not takes(self.theirs.execute, "timeout"):
            words = "Error: this sandbox cannot end a command after a time: run it without a timeout"
            return p.ExecuteResponse(words, NOT_RUN)
        options = {} if timeout is None else {"timeout": timeout}
        try:
            (answer,) = yield self._call("execute", command, **options)
        except Exception as exc:
            return p.ExecuteResponse(self.mendable(exc), NOT_RUN)
        return o.executed(answer)


class Attached(Shell):
    """A sandbox: its files are those that its commands see."""

    def __init__(self, backend: d.BackendProtocol) -> None:
        super().__init__(backend)
        self._workdir: str | None = None

    def mendable(self, exc: Exception) -> str:
        """See `Imported`. An error of the system is one of the way to the sandbox, but for what is too long to go there."""
        if isinstance(exc, OSError) and exc.errno == errno.E2BIG:
            return "Error: this is longer than the sandbox takes in one command: write it to a file in parts"
        if isinstance(exc, (NotImplementedError, ValueError)):
            return super().mendable(exc)
        if isinstance(exc, FanfoldSandboxError):
            raise exc
        raise SandboxError(f"{type(self.theirs).__name__} failed: {exc}") from exc

    def _at(self, path: str) -> Steps[str]:
        if self._workdir is None and not path.startswith("/"):
            (answer,) = yield self._call("execute", "pwd")
            said = answer.output.strip()
            self._workdir = said if said.startswith("/") else "/"
        absolute: str = text.absolute(path, self._workdir or "/")
        return absolute

    def _seen(self, path: str) -> Steps[str]:
        (answer,) = yield self._call("execute", _LOOK.format(shlex.quote(path)))
        said: str = answer.output.strip()
        if said not in ("folder", "file", "nothing", "blocked"):
            raise text.Refused(p.INVALID_PATH, f"Error: '{path}' cannot be looked at: {said[:200]}")
        return said


def imported(backend: d.BackendProtocol) -> p.BackendProtocol:
    """`backend` as one of ours."""
    if isinstance(backend, theirs.CompositeBackend):
        return (Shell if isinstance(backend.default, d.SandboxBackendProtocol) else Imported)(backend)
    if isinstance(backend, d.SandboxBackendProtocol):
        return (Shell if isinstance(backend, theirs.FilesystemBackend) else Attached)(backend)
    return (Lasting if type(backend).delete is d.BackendProtocol.delete else Imported)(backend)
