"""What a test changes of the whole process is put back."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers, root.level, sys.excepthook, threading.excepthook
    yield
    logging.captureWarnings(False)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers, _, sys.excepthook, threading.excepthook = before
    root.setLevel(before[1])
