"""What is to be done where two sides disagree, by the paths that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from sandboxes.errors import InvalidSpec
from sandboxes.workspace.names import is_dot_git

Choice = Literal["markers", "ours", "theirs", "union", "fail", "ask"]
"""What the tree holds where there is a conflict. All but the first four leave what the children before had ("ours").

- markers: the text with conflict markers; of what is no text, ours.
- ours, theirs: that side, in a text for the lines in conflict alone. The conflict counts as settled.
- union: the lines of both sides, ours first, and that settles it; of what is no text, ours, unsettled. A file that both moved
  is in both places.
- fail: the whole merge is refused.
- ask: somebody is to be asked; the merge itself asks nobody.

A file in the place of a folder is never taken, whatever the choice: the folder, or the file that was there, stays.
"""
Driver = Literal["text", "json", "toml", "yaml", "auto"]
"""How a file is merged when its lines conflict: `text` leaves it at that, `auto` goes by the end of its name."""

RULES_CAP: Final = 1000
"""Rules of a policy."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds for the paths that match `pattern`, which is a line of a `.gitignore` at the top, without `!`."""

    pattern: str = "**"
    choice: Choice = "markers"
    driver: Driver = "text"
    command: str | None = None
    """A file that this command makes (a lock file) is not merged once two sides changed it: the command is to run."""

    def __post_init__(self) -> None:
        if not self.pattern.strip() or self.pattern[0] in "!#" or not {"\n", "\0"}.isdisjoint(self.pattern):
            raise InvalidSpec(f"the pattern {self.pattern!r} can match nothing: write one line of a .gitignore, without '!'")


DEFAULT: Final = Rule()


@dataclass(frozen=True)
class Policy:
    """Rules, of which the last one that matches a path holds, and it alone; and which paths are merged at all."""

    rules: tuple[Rule, ...] = ()
    include: tuple[str, ...] = ()
    """Lines of a `.gitignore`: only what they match is merged. Empty: everything."""
    exclude: tuple[str, ...] = ()
    """Lines of a `.gitignore`: what they match is not merged. What means `.git` to Git never is."""

    def __post_init__(self) -> None:
        if len(self.rules) > RULES_CAP:
            raise InvalidSpec(f"the policy has more than {RULES_CAP} rules")

    @contextmanager
    def opened(self) -> Iterator[OpenPolicy]:
        """The policy, ready to be asked."""
        from sandboxes.workspace.ignore import matching  # it imports a Git library

        with ExitStack() as stack:
            match = [(stack.enter_context(matching([rule.pattern])), rule) for rule in reversed(self.rules)]
            include, exclude = (
                stack.enter_context(matching(patterns)) if patterns else None for patterns in (self.include, self.exclude)
            )
            yield OpenPolicy(match, include, exclude)


@dataclass(frozen=True)
class OpenPolicy:
    """A policy whose patterns are compiled."""

    _rules: list[tuple[Callable[[str], bool], Rule]]
    _include: Callable[[str], bool] | None
    _exclude: Callable[[str], bool] | None

    def rule(self, path: str) -> Rule:
        """The rule that holds for a path."""
        return next((rule for matches, rule in self._rules if matches(path)), DEFAULT)

    def merges(self, path: str) -> bool:
        """Whether a change at this path is merged."""
        if any(map(_is_dot_git, path.split("/"))):
            return False
        if self._include is not None and not self._include(path):
            return False
        return self._exclude is None or not self._exclude(path)


_is_dot_git = lru_cache(maxsize=65536)(is_dot_git)
