"""Keys of the tenant; for keys with the scope `admin`."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.client.caller import Caller
from orchestrator.client.driving import Blocking, blocking
from orchestrator.client.models import Key, Listing, NewKey


class AsyncKeys:
    """Making, listing and revoking keys."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(self, name: str, scopes: Sequence[str], *, expires_in: float | None = None) -> NewKey:
        """Make a key, which lives for `expires_in` seconds or until it is revoked. It is told only now.

        It is asked for once: an answer that is lost is a key that nobody has, and shows in `list`.
        """
        body = {"name": name, "scopes": list(scopes), "expires_in": expires_in}
        return await self._caller.post(NewKey, "keys", body=body)

    async def list(self) -> Sequence[Key]:
        """The tenant's keys, the newest first; those that are over too."""
        return (await self._caller.get(Listing[Key], "keys")).items

    async def revoke(self, key_id: str) -> None:
        """Have a key open nothing from now on."""
        await self._caller.delete("keys", key_id)


class Keys(Blocking[AsyncKeys]):
    """See `AsyncKeys`."""

    create = blocking(AsyncKeys.create)
    list = blocking(AsyncKeys.list)
    revoke = blocking(AsyncKeys.revoke)
