"""The types of the record's columns, for SQLite and PostgreSQL alike."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, MetaData, Text
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
