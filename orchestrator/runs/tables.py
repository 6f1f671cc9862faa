"""The tables of the record, for SQLite and PostgreSQL alike. A change here needs a migration."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.types import TypeDecorator

metadata = MetaData()

_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC; SQLite forgets the time zone, so it is put back."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        """To the database."""
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """From the database."""
        return value.replace(tzinfo=UTC) if value and value.tzinfo is None else value


class PlainText(TypeDecorator[str]):
    """Text from anywhere. PostgreSQL takes no NUL, and no database half a surrogate pair: they become U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        """To the database."""
        return None if value is None else _UNSTORABLE.sub("\ufffd", value)


runs = Table(
    "runs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", String(100), nullable=False),
    Column("status", String(16), nullable=False),
    Column("spec", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("error_kind", String(16)),
    Column("error_message", PlainText),
    Column("attempt", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("lease_token", Integer, nullable=False),
    Column("worker", String(200)),
    Column("heartbeat_at", UtcDateTime),
    Column("sandbox", JSON(none_as_null=True)),
    Column("last_seq", Integer, nullable=False),
    Index("ix_runs_created_at", "created_at"),
    Index("ix_runs_status", "status"),
)

events = Table(
    "events",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("type", String(64), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("data", JSON, nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(1024), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("worker", String(200), nullable=False),
    Column("status", String(16), nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("error_kind", String(16)),
    Column("error_message", PlainText),
    Column("provider", PlainText),
    Column("sandbox_id", PlainText),
    Column("sandbox_seconds", Double),
)

usage = Table(
    "usage",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("agent", String(200), primary_key=True),
    Column("model", String(200), primary_key=True),
    Column("calls", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cache_read_tokens", BigInteger, nullable=False),
    Column("cache_write_tokens", BigInteger, nullable=False),
    Column("cost_micros", BigInteger),
)

workers = Table(
    "workers",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("host", String(100), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("heartbeat_at", UtcDateTime, nullable=False),
)

installation = Table(
    "installation",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("leader", String(200)),
    Column("leads_until", UtcDateTime),
)
"""One row, which the migration made."""
