"""Keys of the API in the record: only their hashes, so that who reads the record cannot use it as somebody else."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, insert, or_, select, update

from orchestrator.errors import NotFound
from orchestrator.runs import service_tables as s
from orchestrator.runs.database import Database
from orchestrator.runs.tenants import Limits, Tenant, ensure_tenant

USED_AT_STEP = 60.0
"""Seconds between two notes that a key is used: a request must not cost a write."""


@dataclass(frozen=True)
class ApiKey:
    """A key, without what makes it one."""

    id: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    used_at: datetime | None = None
    """When it was last used, to about a minute."""

    def valid(self, moment: datetime) -> bool:
        """Whether it opens anything at this moment."""
        return self.revoked_at is None and (self.expires_at is None or moment < self.expires_at)


@dataclass(frozen=True)
class KnownKey:
    """A key with its hash, and whose it is."""

    key: ApiKey
    digest: str
    """SHA-256 of the whole key, in hexadecimal digits."""
    tenant: Tenant


_KNOWN = (
    select(s.api_keys, *(column.label(f"tenant_{column.name}") for column in s.tenants.c))
    .join(s.tenants, s.tenants.c.id == s.api_keys.c.tenant)
    .where(s.api_keys.c.id == bindparam("key_id"))
)
"""A key and whose it is, in one question: each request asks it."""


class Keys(Database):
    """The keys of all tenants. Safe to use from many threads and many processes."""

    def add(
        self, key_id: str, digest: str, *, tenant: str, name: str, scopes: Collection[str], expires_in: float | None = None
    ) -> ApiKey:
        """Record a key. Its tenant is made when it is not there. `expires_in` is in seconds."""
        moment = self._now()
        values = {
            "id": key_id,
            "tenant": tenant,
            "name": name,
            "digest": digest,
            "scopes": sorted(scopes),
            "created_at": moment,
            "expires_at": None if expires_in is None else moment + timedelta(seconds=expires_in),
        }
        with self._writing() as connection:
            ensure_tenant(connection, tenant, moment)
            connection.execute(insert(s.api_keys).values(values))
        return self.get(tenant, key_id)

    def get(self, tenant: str, key_id: str) -> ApiKey:
        """A tenant's key. Raises `NotFound`."""
        c = s.api_keys.c
        with self._reading() as connection:
            row = connection.execute(select(s.api_keys).where(c.tenant == tenant, c.id == key_id)).one_or_none()
        if row is None:
            raise NotFound(f"there is no key '{key_id}'; `fanfold keys ls` lists them")
        return _key_of(row)

    def all(self, tenant: str) -> list[ApiKey]:
        """A tenant's keys, the newest first."""
        c = s.api_keys.c
        query = select(s.api_keys).where(c.tenant == tenant).order_by(c.created_at.desc(), c.id)
        with self._reading() as connection:
            return [_key_of(row) for row in connection.execute(query)]

    def revoke(self, tenant: str, key_id: str) -> ApiKey:
        """End a tenant's key, for good and at once. Raises `NotFound`."""
        c = s.api_keys.c
        own = (c.tenant == tenant, c.id == key_id, c.revoked_at.is_(None))
        with self._writing() as connection:
            connection.execute(update(s.api_keys).where(*own).values(revoked_at=self._now()))
        return self.get(tenant, key_id)

    def known(self, key_id: str) -> KnownKey | None:
        """The key with this id, whoever's it is: it says whose everything else is. None when there is none, or it is over."""
        with self._reading() as connection:
            row = connection.execute(_KNOWN, {"key_id": key_id}).one_or_none()
        if row is None or not (key := _key_of(row)).valid(self._now()):
            return None
        limits = Limits(**{name: getattr(row, f"tenant_{name}") for name in Limits.__dataclass_fields__})
        return KnownKey(key, row.digest, Tenant(key.tenant, row.tenant_created_at, limits))

    def note_use(self, key: ApiKey) -> None:
        """Record that a key is used now, at most once in `USED_AT_STEP`."""
        c, moment = s.api_keys.c, self._now()
        before = moment - timedelta(seconds=USED_AT_STEP)
        if key.used_at is not None and key.used_at > before:
            return
        stale = (c.id == key.id, or_(c.used_at.is_(None), c.used_at <= before))
        with self._writing() as connection:
            connection.execute(update(s.api_keys).where(*stale).values(used_at=moment))


def _key_of(row: Row[Any]) -> ApiKey:
    names = ("id", "tenant", "name", "created_at", "expires_at", "revoked_at", "used_at")
    return ApiKey(**{name: getattr(row, name) for name in names}, scopes=tuple(row.scopes))
