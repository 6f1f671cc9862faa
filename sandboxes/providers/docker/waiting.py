"""Waiting for others who are at the same object of the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from docker.errors import APIError, NotFound

BUSY_SECONDS: Final = 15.0
"""How long to wait for what somebody else is removing or filling."""
STEP: Final = 0.05
"""Seconds between two tries."""


def until_not_busy(removal: Callable[[], object]) -> None:
    """Do a removal; wait, within a deadline, while somebody else is at the same. What is gone is gone."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            removal()
        except NotFound:
            return
        except APIError as exc:
            if exc.status_code != 409 or time.monotonic() > end:
                raise
            time.sleep(STEP)
        else:
            return
