"""Versions: reading, writing and ordering."""

import functools
import re

_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(
    r"(?P<major>0|[1-9]\d*)\.(?P<minor>0|[1-9]\d*)\.(?P<patch>0|[1-9]\d*)"
    rf"(?:-(?P<pre>{_IDENTIFIERS}))?(?:\+(?P<build>{_IDENTIFIERS}))?"
)


@functools.total_ordering
class Version:
    """A version. Immutable, hashable and ordered; the build part counts for neither order nor equality."""

    __slots__ = ("build", "major", "minor", "patch", "pre")

    def __init__(self, major, minor=0, patch=0, pre=(), build=()):
        parts = {"major": major, "minor": minor, "patch": patch, "pre": tuple(pre), "build": tuple(build)}
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name, value):
        raise AttributeError("a Version cannot be changed")

    @classmethod
    def parse(cls, text):
        """Read a version such as `1.2.3`, `1.2.3-rc.1` or `1.2.3+linux`. Raises ValueError when it is none."""
        match = _VERSION.fullmatch(text)
        if not match:
            raise ValueError(f"not a version: {text!r}")
        pre = tuple(match["pre"].split(".")) if match["pre"] else ()
        for identifier in pre:
            if identifier.isdigit() and identifier != "0" and identifier.startswith("0"):
                raise ValueError(f"not a version: {text!r} has a number with a leading zero")
        build = tuple(match["build"].split(".")) if match["build"] else ()
        return cls(int(match["major"]), int(match["minor"]), int(match["patch"]), pre, build)

    @property
    def release(self):
        """The three numbers, as a tuple."""
        return (self.major, self.minor, self.patch)

    def bump(self, part):
        """The next version: `part` is `major`, `minor` or `patch`. A pre-release of a patch becomes that patch."""
        if part == "major":
            return Version(self.major + 1)
        if part == "minor":
            return Version(self.major, self.minor + 1)
        if part == "patch":
            return Version(self.major, self.minor, self.patch + (0 if self.pre else 1))
        raise ValueError(f"no part {part!r}: use major, minor or patch")

    def _key(self):
        """What versions are ordered by. A release comes after all of its pre-releases."""
        return (self.release, not self.pre, self.pre)

    def __eq__(self, other):
        return self._key() == other._key() if isinstance(other, Version) else NotImplemented

    def __lt__(self, other):
        return self._key() < other._key() if isinstance(other, Version) else NotImplemented

    def __hash__(self):
        return hash(self._key())

    def __str__(self):
        text = ".".join(str(number) for number in self.release)
        text += "-" + ".".join(self.pre) if self.pre else ""
        return text + ("+" + ".".join(self.build) if self.build else "")

    def __repr__(self):
        return f"Version({str(self)!r})"
