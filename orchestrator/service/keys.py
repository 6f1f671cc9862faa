"""Keys of the API: making them, ending them, and telling whose a request is."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from orchestrator.errors import BadInput
from orchestrator.runs.keys import ApiKey, Keys, KnownKey
from orchestrator.service.installation import Installation

Scope = Literal["runs:write", "runs:read", "sandboxes:exec", "admin"]
SCOPES: frozenset[str] = frozenset(get_args(Scope))
"""`admin` implies the others, within its tenant."""
MAX_NAME = 100
"""Characters of a key's name."""
MAX_EXPIRY = 10 * 365 * 86400.0
"""Seconds that a key may be meant to live; one without an end lives on."""
SECRET_BYTES = 32

_FORM = re.compile(r"ffk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class NewKey:
    """A key that was just made. The text is nowhere else, and cannot be had again."""

    key: ApiKey
    text: str = field(repr=False)
    """`ffk_`, 12 hexadecimal digits of its id, `_`, and 43 characters."""


class KeyRing:
    """The keys of one tenant."""

    def __init__(self, installation: Installation, tenant: str) -> None:
        self._of = installation
        self._tenant = tenant

    @cached_property
    def _keys(self) -> Keys:
        return Keys(self._of.engine)

    def create(self, name: str, scopes: Collection[str], *, expires_in: float | None = None) -> NewKey:
        """Make a key. `expires_in` is in seconds; without it the key lives until it is revoked. Raises `BadInput`."""
        if unknown := sorted(set(scopes) - SCOPES):
            raise BadInput(f"there is no scope '{unknown[0]}'; there are {', '.join(sorted(SCOPES))}")
        if not scopes:
            raise BadInput(f"a key needs a scope: {', '.join(sorted(SCOPES))}")
        if not (0 < len(name) <= MAX_NAME and name.isprintable()):
            raise BadInput(f"the name of a key is 1 to {MAX_NAME} printable characters")
        if expires_in is not None and not 0 < expires_in <= MAX_EXPIRY:
            raise BadInput(f"a key expires after more than 0 and at most {MAX_EXPIRY:.0f} seconds, not {expires_in:g}")
        digits = secrets.token_hex(6)
        text = f"ffk_{digits}_{secrets.token_urlsafe(SECRET_BYTES)}"
        made = self._keys.add(
            f"key-{digits}", _digest(text), tenant=self._tenant, name=name, scopes=frozenset(scopes), expires_in=expires_in
        )
        return NewKey(made, text)

    def list(self) -> Sequence[ApiKey]:
        """The tenant's keys, the newest first; those that are over too."""
        return self._keys.all(self._tenant)

    def revoke(self, key_id: str) -> ApiKey:
        """End a key of the tenant, for good and at once. Raises `NotFound`."""
        return self._keys.revoke(self._tenant, key_id)

    def owner(self, text: str) -> KnownKey | None:
        """Whose key this is, whatever the tenant; None when it opens nothing. That it is used is noted."""
        match = _FORM.fullmatch(text)
        known = self._keys.known(f"key-{match[1]}") if match else None
        if known is None or not hmac.compare_digest(known.digest, _digest(text)):
            return None
        self._keys.note_use(known.key)
        return known


def _digest(text: str) -> str:
    """A key is random enough that a fast hash keeps it."""
    return hashlib.sha256(text.encode()).hexdigest()
