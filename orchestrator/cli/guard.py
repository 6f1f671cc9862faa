"""The rim of the command line: whatever goes wrong inside leaves as one clear message and a documented exit code."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.errors import BadInput, FanfoldError, InfrastructureError
from orchestrator.text import clean

CANCELLED = 130


def guarded(arguments: list[str]) -> int:
    """Run the commands over `arguments` and answer with the exit code."""
    try:
        from orchestrator.cli.app import app

        result = app(arguments or ["--help"], prog_name="fanfold", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except FanfoldError as exc:
        complain(str(exc))
        return exc.exit_code
    except KeyboardInterrupt:
        return CANCELLED
    except BrokenPipeError:
        # Who read our output has left (`| head`). Nothing more can be told; the interpreter must not try to, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return InfrastructureError.exit_code
    except Exception as exc:
        return _usage(exc) if hasattr(exc, "format_message") else _internal(exc)


def complain(message: str) -> None:
    """Say on stderr what is wrong; each line of the message is a problem of its own."""
    for line in clean(message).splitlines() or ["an error without a message"]:
        sys.stderr.write(f"fanfold: error: {line}\n")
    sys.stderr.flush()


def _usage(exc: Exception) -> int:
    """Typer's own complaint: a wrong option or argument. (Its class moves between versions; its form does not.)"""
    message = str(exc.format_message()).rstrip()  # type: ignore[attr-defined]
    context = getattr(exc, "ctx", None)
    if message.startswith("Usage:"):  # a group without a command
        sys.stderr.write(f"{message}\n")
        return BadInput.exit_code
    complain(message)
    sys.stderr.write(f"Try '{context.command_path if context else 'fanfold'} --help'.\n")
    return BadInput.exit_code


def _internal(exc: Exception) -> int:
    """A fault of ours: the traceback goes to a file, or to stderr with FANFOLD_DEBUG=1."""
    if os.environ.get("FANFOLD_DEBUG") == "1":
        traceback.print_exception(exc)
        return InfrastructureError.exit_code
    problem = f"internal error: {type(exc).__name__}: {clean(str(exc)).splitlines()[0] if str(exc) else ''}".rstrip(": ")
    complain(f"{problem}; details are in {_log(exc)}")
    return InfrastructureError.exit_code


def _log(exc: Exception) -> Path:
    report = f"{datetime.now(UTC).isoformat()} fanfold {' '.join(sys.argv[1:2])}\n{''.join(traceback.format_exception(exc))}\n"
    with suppress(OSError):
        if path := _log_file():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as log:
                log.write(report)
            return path
    with tempfile.NamedTemporaryFile("w", prefix="fanfold-error-", suffix=".log", delete=False) as file:
        file.write(report)
    return Path(file.name)


def _log_file() -> Path | None:
    """In the home, by the variables alone: the settings may be what is wrong. None where an API is used: no home is made."""
    if os.environ.get("FANFOLD_URL"):
        return None
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(os.environ.get("FANFOLD_HOME") or Path(state) / "fanfold") / "cli-errors.log"
