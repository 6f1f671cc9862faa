"""What is logged: one format for everybody, with the run that it is about, and without secrets."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
import warnings
from typing import Any

import pytest
import structlog

from orchestrator.settings import Settings
from orchestrator.telemetry.logs import configure_logs, log_context
from orchestrator.telemetry.redaction import Masks

pytestmark = pytest.mark.usefixtures("_restored_logging")

SECRET = 'hunter2 "secret"\n'


class Logged:
    """A process's log."""

    def __init__(self, **settings: Any) -> None:
        self.stream = io.StringIO()
        self.masks = Masks()
        configure_logs(Settings(**settings), self.masks, stream=self.stream)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


def test_ours_and_those_of_other_packages_have_one_form() -> None:
    log = Logged()
    structlog.stdlib.get_logger("ours").info("began", slots=4)
    logging.getLogger("theirs").warning("%d left", 3)
    ours, theirs = log.lines
    assert {"event": "began", "slots": 4, "level": "info", "logger": "ours"}.items() <= ours.items()
    assert {"event": "3 left", "level": "warning", "logger": "theirs"}.items() <= theirs.items()
    assert ours["time"].endswith("Z")


def test_what_a_run_does_names_it_also_in_tasks_and_threads() -> None:
    log = Logged()
    logger = logging.getLogger("worker")

    async def work() -> None:
        with log_context(run="run-1", attempt=2, tenant="acme"):
            await asyncio.gather(asyncio.create_task(other()), asyncio.to_thread(logger.info, "thread"))
        logger.info("outside")

    async def other() -> None:
        logger.info("task")

    asyncio.run(work())
    told = {line["event"]: (line.get("run"), line.get("attempt"), line.get("tenant")) for line in log.lines}
    assert told["task"] == told["thread"] == ("run-1", 2, "acme")
    assert told["outside"] == (None, None, None)


@pytest.mark.parametrize("kind", ["json", "console"])
def test_no_secret_is_logged_in_any_part_of_an_entry(kind: str) -> None:
    log = Logged(log_format=kind)
    logger = logging.getLogger("worker")
    with log.masks.hiding([SECRET]):
        logger.info("with %s", SECRET)
        logger.info("as json %s", json.dumps({"a": SECRET}))
        structlog.stdlib.get_logger("ours").info("event", value=SECRET, deep={"list": [SECRET]})
        try:
            raise ValueError(SECRET)
        except ValueError:
            logger.exception("failed")
    logger.info("connecting to redis://user:letmein99@cache with ffk_0123456789abcdef")
    text = log.stream.getvalue()
    assert "hunter2" not in text
    assert "letmein99" not in text
    assert "ffk_0" not in text
    assert "ValueError" in text


def test_what_is_less_important_than_the_level_is_left_out() -> None:
    log = Logged(log_level="warning")
    logging.getLogger("worker").info("small")
    structlog.stdlib.get_logger("ours").info("small")
    logging.getLogger("worker").warning("large")
    assert [line["event"] for line in log.lines] == ["large"]


def test_packages_that_tell_each_step_are_heard_only_when_everything_is_wanted() -> None:
    log = Logged()
    logging.getLogger("httpx").info("GET ...")
    configure_logs(Settings(log_level="debug"), log.masks, stream=log.stream)
    logging.getLogger("httpx").info("GET again")
    assert [line["event"] for line in log.lines] == ["GET again"]


def test_warnings_and_what_nobody_caught_in_a_thread_are_logged_too() -> None:
    log = Logged()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    def fail() -> None:
        with log.masks.hiding(["hunter2-secret"]):
            raise RuntimeError("hunter2-secret")

    hook = threading.excepthook
    try:
        fail()
    except RuntimeError as exc:
        with log.masks.hiding(["hunter2-secret"]):
            hook(threading.ExceptHookArgs((type(exc), exc, exc.__traceback__, threading.current_thread())))
    warning, uncaught = log.lines
    assert "DeprecationWarning: old" in warning["event"]
    assert uncaught["level"] == "critical"
    assert "RuntimeError: ***" in uncaught["exception"]
