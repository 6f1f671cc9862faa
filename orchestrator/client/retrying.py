"""How often, and after how long, a client asks again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

MAX_TRIES = 5
"""How often one request is sent, the first time included."""
FIRST_WAIT = 0.2
"""Seconds before the second try; each later wait is twice as long, give or take a half."""
LONGEST_WAIT = 5.0
"""Seconds; what a server asks for with Retry-After may be longer."""
MAX_WAITING = 30.0
"""Seconds that one request waits between its tries altogether. Who asks for more is not waited for."""


@dataclass
class Tries:
    """Counts the tries of one request."""

    made: int = 0
    waited: float = 0.0
    _random: random.Random = field(default_factory=random.Random, repr=False)

    def next_wait(self, asked: float | None = None) -> float | None:
        """Seconds to wait before the next try, as many as the server `asked` for when it did; None when it is enough."""
        self.made += 1
        wait = backoff(self.made, self._random) if asked is None else asked
        if self.made >= MAX_TRIES or self.waited + wait > MAX_WAITING:
            return None
        self.waited += wait
        return wait


def backoff(failures: int, chance: random.Random) -> float:
    """Seconds to wait after so many failures in a row. Spread, so that those who failed together do not come back together."""
    longest: float = min(FIRST_WAIT * 2 ** min(failures - 1, 20), LONGEST_WAIT)
    return longest * chance.uniform(0.5, 1.5)
