"""Sending what was noted for webhooks: several at once, and again, later and later, what a receiver did not take."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from orchestrator.controller.posting import Answer
from orchestrator.errors import FanfoldError
from orchestrator.runs.delivering import Busy, Deliveries, Taken
from orchestrator.signature import sign

logger = logging.getLogger(__name__)

DELIVER_EVERY = 0.5
"""Seconds between two looks for what is due."""
DELIVER_SLOWEST = 5.0
"""Seconds between two looks, at most, while the record is away."""
FORGET_EVERY = 600.0
"""Seconds between two times that old deliveries are forgotten."""
FORGET_DELAY = 30.0
"""Seconds before the first time: who has just started has better things to do, and may not lead yet."""
ROUND = 2.0
"""Seconds that one look goes on while there is more to send."""
WAIT = 0.1
"""Seconds after which a look that waits for the end of a delivery asks the record again."""
AT_ONCE = 8
"""Deliveries that are on their way at the same time."""
MAX_ATTEMPTS = 12
"""Attempts at a delivery, within a day."""
AGAIN_FIRST = 10.0
"""Seconds until the second attempt; three times as long each time."""
AGAIN_LATEST = 4 * 3600.0
"""Seconds between two attempts, at most."""
JITTER = 0.2
"""Share of a pause by which it is longer or shorter at random, so that what failed together does not come back together."""

Post = Callable[[str, bytes, Mapping[str, str]], Answer]


def pause_after(attempt: int, chance: Callable[[], float] = random.random) -> float:
    """Seconds between this attempt (the first is 1), which failed, and the next one. `chance` is from 0 to 1."""
    pause = min(AGAIN_FIRST * 3.0 ** min(attempt - 1, MAX_ATTEMPTS), AGAIN_LATEST)
    return pause * (1 - JITTER + 2 * JITTER * chance())


class Deliver:
    """Sends what is due each time it is called. What is on its way goes on in threads of its own, and holds up no call."""

    def __init__(self, record: Deliveries, post: Post, open_secret: Callable[[str], str]) -> None:
        self._record = record
        self._post = post
        self._open_secret = open_secret
        self._ended = threading.Condition()
        self._under_way: dict[str, Taken] = {}

    def look(self) -> None:
        """Begin what is due, for `ROUND` seconds at most. Raises `InfrastructureError` when the record is not there."""
        end = time.monotonic() + ROUND
        while time.monotonic() < end:
            under_way = self._those_under_way()
            free = AT_ONCE - len(under_way)
            taken = self._record.take(free, _busy(under_way)) if free else []
            for one in taken:
                self._begin(one)
            if not taken and not under_way:
                return
            if not taken:
                with self._ended:
                    self._ended.wait(WAIT)

    def _those_under_way(self) -> list[Taken]:
        with self._ended:
            return list(self._under_way.values())

    def _begin(self, taken: Taken) -> None:
        with self._ended:
            self._under_way[taken.id] = taken
        threading.Thread(target=self._deliver, args=(taken,), name=f"deliver {taken.id}", daemon=True).start()

    def _deliver(self, taken: Taken) -> None:
        try:
            self._settle(taken, self._send(taken))
        except FanfoldError as exc:  # it is due again when nobody says what became of it
            logger.warning("delivery %s to %s: %s", taken.id, taken.webhook_id, exc)
        except Exception:
            logger.exception("delivery %s to %s", taken.id, taken.webhook_id)
        finally:
            with self._ended:
                del self._under_way[taken.id]
                self._ended.notify_all()

    def _send(self, taken: Taken) -> Answer:
        body = json.dumps({"id": taken.id, **taken.payload}, separators=(",", ":")).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "fanfold",
            "Fanfold-Delivery": taken.id,
            "Fanfold-Event": str(taken.payload["event"]),
            "Fanfold-Signature": sign(body, self._open_secret(taken.secret), time.time()),
        }
        return self._post(taken.url, body, headers)

    def _settle(self, taken: Taken, answer: Answer) -> None:
        if answer.error is None and answer.status is not None:
            self._record.delivered(taken, answer.status)
        elif taken.attempt < MAX_ATTEMPTS:
            self._record.put_off(taken, answer.status, answer.error or "", pause_after(taken.attempt))
        else:
            self._record.failed(taken, answer.status, answer.error or "")


def _busy(under_way: list[Taken]) -> Busy:
    return Busy(Counter(one.webhook_id for one in under_way), Counter(one.tenant for one in under_way))
