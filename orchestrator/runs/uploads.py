"""Uploads in the record: what was sent for runs to come."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, insert, select

from orchestrator.errors import NotFound
from orchestrator.runs import service_tables as s
from orchestrator.runs.database import Database


@dataclass(frozen=True)
class Upload:
    """A file that somebody sent."""

    id: str
    tenant: str
    size: int
    """Bytes."""
    sha256: str
    created_at: datetime


def new_upload_id() -> str:
    """`upl-` and 12 hexadecimal digits."""
    return "upl-" + secrets.token_hex(6)


class Uploads(Database):
    """The uploads of each tenant. Another tenant's is not there."""

    def add(self, upload_id: str, *, tenant: str, size: int, sha256: str) -> Upload:
        """Record an upload whose content is there."""
        upload = Upload(upload_id, tenant, size, sha256, self._now())
        with self._writing() as connection:
            connection.execute(insert(s.uploads).values(vars(upload)))
        return upload

    def get(self, upload_id: str, *, tenant: str) -> Upload:
        """The upload with this very id. Raises `NotFound`."""
        c = s.uploads.c
        with self._reading() as connection:
            row = connection.execute(select(s.uploads).where(c.id == upload_id, c.tenant == tenant)).one_or_none()
        if row is None:
            raise NotFound(f"there is no upload '{upload_id}': send the file again with POST /v1/uploads")
        return Upload(**row._mapping)

    def old(self, age: float) -> list[Upload]:
        """Uploads of all tenants that were made more than `age` seconds ago."""
        query = select(s.uploads).where(s.uploads.c.created_at < self._now() - timedelta(seconds=age))
        with self._reading() as connection:
            return [Upload(**row._mapping) for row in connection.execute(query)]

    def forget(self, ids: Collection[str]) -> None:
        """Delete the entries of these uploads, whoever's they are."""
        with self._writing() as connection:
            connection.execute(delete(s.uploads).where(s.uploads.c.id.in_(ids)))
