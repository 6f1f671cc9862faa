"""One way to log for a whole process: structlog, and the standard library's logging of every package through it, to stderr.

A line is a JSON object with `time`, `level`, `logger` and `event`; `run`, `attempt` and `tenant` where a run is executed;
`trace` and `span` where there is a trace; and `exception` with a traceback. Secrets are taken out of all of it.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO

import structlog
from opentelemetry import trace
from structlog.types import EventDict, Processor, WrappedLogger

from orchestrator.settings import Settings
from orchestrator.telemetry.redaction import Masks

OURS = frozenset({"time", "level", "logger", "run", "attempt", "tenant", "trace", "span"})
"""Fields in which there is nothing but what we have made."""
QUIET = ("httpx", "httpcore", "alembic", "urllib3", "botocore", "asyncio")
"""Packages that tell every step at `info`: they are heard from `warning` on, unless everything is wanted."""


def configure_logs(settings: Settings, masks: Masks, *, stream: TextIO | None = None) -> None:
    """Let everything that this process logs go to `stream` (default: stderr), in the format of the settings.

    May be called again; the last one holds. Exceptions that nobody caught, in any thread, and warnings of Python are logged.
    """
    target = sys.stderr if stream is None else stream
    first = _first()
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *first, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=first, processors=_last(_format(settings, target), target, masks))
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.NOTSET if settings.log_level == "debug" else logging.WARNING)
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


@contextmanager
def log_context(*, run: str | None = None, attempt: int | None = None, tenant: str | None = None) -> Iterator[None]:
    """Let all that is logged inside, and in the tasks and threads that it starts, name these."""
    given = {"run": run, "attempt": attempt, "tenant": tenant}
    with structlog.contextvars.bound_contextvars(**{name: value for name, value in given.items() if value is not None}):
        yield


def _format(settings: Settings, target: TextIO) -> str:
    return settings.log_format or ("console" if target.isatty() else "json")


def _first() -> list[Processor]:
    """What each entry is given when it is made, by us or by another package."""
    return [
        structlog.contextvars.merge_contextvars,
        _add_trace,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
    ]


def _last(kind: str, target: TextIO, masks: Masks) -> list[Processor]:
    """What is done to each entry when it is written: its secrets go last, so that nothing is added after them."""

    def hide_secrets(_logger: WrappedLogger, _method: str, entry: EventDict) -> EventDict:
        return {name: value if name in OURS else masks.data(value) for name, value in entry.items()}

    writer: Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if kind == "json"
        else structlog.dev.ConsoleRenderer(
            colors=target.isatty(), timestamp_key="time", exception_formatter=structlog.dev.plain_traceback
        )
    )
    return [structlog.stdlib.ProcessorFormatter.remove_processors_meta, hide_secrets, writer]


def _add_trace(_logger: WrappedLogger, _method: str, entry: EventDict) -> EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        entry["trace"], entry["span"] = trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)
    return entry


def _log_uncaught(kind: type[BaseException], exc: BaseException, traceback: TracebackType | None) -> Any:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, exc, traceback)
        return
    logging.getLogger("fanfold").critical("an exception that nobody caught", exc_info=(kind, exc, traceback))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> Any:
    if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
        where = args.thread.name if args.thread else "a thread"
        told = (args.exc_type, args.exc_value, args.exc_traceback)
        logging.getLogger("fanfold").critical("an exception that nobody caught in %s", where, exc_info=told)
