"""Ranges of versions: `>=1.2.0 <2.0.0`, `^1.2.3`, `~1.2.3`, alternatives with `||`."""

import operator
import re

from semver.version import Version

_OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "": operator.eq,
}
_CONDITION = re.compile(r"(<=|>=|[\^~<>=]?)\s*([^\s\^~<>=]+)")


class Range:
    """A set of versions: those that satisfy every condition of at least one alternative."""

    def __init__(self, alternatives):
        self._alternatives = alternatives

    @classmethod
    def parse(cls, text):
        """Read a range. Raises ValueError when it is none. An empty text or `*` is every version."""
        return cls([cls._conditions(part.strip()) for part in text.split("||")])

    @staticmethod
    def _conditions(text):
        if text in ("", "*"):
            return []
        conditions = []
        for sign, version in _CONDITION.findall(text):
            low = Version.parse(version)
            if sign in ("^", "~"):
                conditions += [(operator.ge, low), (operator.lt, _ceiling(sign, low))]
            else:
                conditions.append((_OPERATORS[sign], low))
        return conditions

    def __contains__(self, version):
        version = Version.parse(version) if isinstance(version, str) else version
        return any(all(test(version, bound) for test, bound in part) for part in self._alternatives)

    def latest(self, versions):
        """The highest of `versions` (texts or Versions) in this range; None when there is none."""
        parsed = [Version.parse(one) if isinstance(one, str) else one for one in versions]
        return max((one for one in parsed if one in self), default=None)


def _ceiling(sign, low):
    """The first version that `^low` or `~low` leaves out."""
    if sign == "~":
        return low.bump("minor")
    if low.major:
        return low.bump("major")
    return low.bump("minor") if low.minor else Version(0, 0, low.patch + 1)
