"""Which user a sandbox runs as: always numbers, found in the image's own password file when a name was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sandboxes.errors import InvalidSpec

DEFAULT_ID: Final = 1000


@dataclass(frozen=True)
class User:
    """Numeric ids."""

    uid: int
    gid: int

    @property
    def ids(self) -> str:
        """As the engine wants it."""
        return f"{self.uid}:{self.gid}"

    @property
    def is_root(self) -> bool:
        """Whether this is root in the container."""
        return self.uid == 0


ROOT: Final = User(0, 0)
NOBODY_IN_PARTICULAR: Final = User(DEFAULT_ID, DEFAULT_ID)


def wanted(asked: str | None, of_image: str, writable_system: bool) -> User | str:
    """The user to run as: ids, or text that has to be looked up in the image.

    What the spec asks for; else the image's own user, unless that is root; else 1000. A writable system without a user
    means root in the container: nobody else can write it.
    """
    if asked:
        return parse(asked)
    if writable_system:
        return ROOT
    if of_image.partition(":")[0] in ("", "0", "root"):
        return NOBODY_IN_PARTICULAR
    return parse(of_image)


def parse(text: str) -> User | str:
    """Ids from `uid:gid`, and root; the text itself where the image must be asked."""
    user, _, group = text.partition(":")
    if user.isdecimal() and group.isdecimal():
        return User(int(user), int(group))
    return ROOT if text in ("root", "0") else text


def look_up(text: str, passwd: str, groups: str) -> User:
    """Ids of `name`, `uid`, `name:group` or `uid:group`, from an image's /etc/passwd and /etc/group."""
    user, _, group = text.partition(":")
    entries = [line.split(":") for line in passwd.splitlines() if line.count(":") >= 6]
    found = [(int(e[2]), int(e[3])) for e in entries if user in (e[0], e[2]) and e[2].isdecimal() and e[3].isdecimal()]
    if not found and not user.isdecimal():
        names = ", ".join(sorted(entry[0] for entry in entries)[:20]) or "none"
        raise InvalidSpec(f"user {user!r} is not in the image's /etc/passwd (it has: {names}); give it as uid:gid")
    uid, gid = found[0] if found else (int(user), int(user))
    return User(uid, _group(group, groups) if group else gid)


def _group(group: str, groups: str) -> int:
    if group.isdecimal():
        return int(group)
    for line in groups.splitlines():
        fields = line.split(":")
        if len(fields) >= 3 and fields[0] == group and fields[2].isdecimal():
            return int(fields[2])
    raise InvalidSpec(f"group {group!r} is not in the image's /etc/group; give it as uid:gid")
