"""The `git` program, run so that nothing of this machine or of a stranger's repository changes what it does."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Final

from orchestrator.errors import InfrastructureError

DEADLINE: Final = 600.0
"""Seconds that one command may take."""
FILE_CAP: Final = 10 * 1024**3
"""Bytes of a file that it may write, such as the pack of a fetch."""

_BLOCK: Final = 512
"""Bytes in a block of `ulimit -f`."""
_SAID_CAP: Final = 2000
"""Bytes of its complaint that are shown: a server may put there what it likes."""
_PASSED_ON: Final = (
    *("PATH", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)
_SETTINGS: Final = (
    *("protocol.ext.allow=never", "core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false"),
    *("fetch.recurseSubmodules=false", "credential.helper=", "transfer.bundleURI=false"),
)


class GitFailed(Exception):
    """`git` ended with an error; the message is what it said, in printable characters."""


def run_git(*arguments: str, cwd: Path, deadline: float = DEADLINE) -> None:
    """Run `git` in `cwd`. Raises `GitFailed`, or `InfrastructureError` when it is not installed or takes too long."""
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    command = ["sh", "-c", 'ulimit -f "$0" 2>/dev/null; exec git "$@"', str(FILE_CAP // _BLOCK), *settings, *arguments]
    log = cwd / "git.log"
    with (
        log.open("wb") as said,
        subprocess.Popen(
            command,
            cwd=cwd,
            env=_environment(cwd),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        ) as process,
    ):
        try:
            code = process.wait(deadline)
        except subprocess.TimeoutExpired as exc:
            raise InfrastructureError(f"git {arguments[0]} took longer than {deadline:.0f} s: try again") from exc
        finally:
            _kill_group(process)
    if code == 127:
        raise InfrastructureError("inputs.git needs the program `git`: install it, or give `inputs.path` or `inputs.archive`")
    if code != 0:
        raise GitFailed(_tail(log) or f"git {arguments[0]} ended with exit code {code}")


def _environment(home: Path) -> dict[str, str]:
    """No configuration, no questions, and only the protocols that are meant."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "LC_ALL": "C",
        "GIT_DIR": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=30",
        "GIT_ALLOW_PROTOCOL": "https:http:ssh:file",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End `git`, if it runs, and what it started: its transport would outlive it."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _tail(log: Path) -> str:
    """The end of what was said, on one line, without anything that a terminal would obey."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _SAID_CAP))
        text = file.read(_SAID_CAP).decode("utf-8", "replace")
    return "".join(char if char.isprintable() else " " for char in " ".join(text.split()))
