"""Doing a request once, however often it comes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from orchestrator.errors import BadInput, NotFound
from orchestrator.runs.idempotency import Idempotency

T = TypeVar("T")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def digest_of(what: str, body: object) -> str:
    """What tells a request from others with the same key: what is asked for, and its body as JSON or as bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body, sort_keys=True).encode()
    return hashlib.sha256(what.encode() + b"\0" + content).hexdigest()


class Once:
    """Requests of one tenant that carry a key."""

    def __init__(self, keys: Idempotency, tenant: str) -> None:
        self._keys = keys
        self._tenant = tenant

    def do(
        self,
        key: str | None,
        digest: str,
        *,
        new_id: Callable[[], str],
        find: Callable[[str], T],
        make: Callable[[str], T],
        note: Callable[[T], Any] = lambda made: None,
        recall: Callable[[T, Any], T] = lambda found, noted: found,
    ) -> T:
        """What was made for this key, or what `make` makes now under the id that it is given.

        `find` gives what has this very id, or raises `NotFound`. Two that come at once make one: the second waits for it.
        When `make` raises, the key stands for nothing that was made, and the next request with it tries again. Without a key it
        is always made. `note` tells, as JSON, what `find` will not; `recall` puts it back.

        Raises `Conflict` when the key was used with another `digest`, `BadInput` for a key that cannot be one.
        """
        if key is None:
            return make(new_id())
        if not _KEY.fullmatch(key):
            raise BadInput("Idempotency-Key: write 1 to 255 printable ASCII characters without spaces")
        with self._keys.alone(self._tenant, key):
            claim = self._keys.claim(self._tenant, key, digest, new_id())
            if claim.made:
                return recall(find(claim.id), claim.note)
            try:
                found = find(claim.id)  # whoever made it died before it could say so
            except NotFound:
                found = make(claim.id)
            self._keys.done(self._tenant, key, claim.id, note(found))
            return found
