"""Keys that requests carry so that one that comes twice is done once.

A key names the id of what it makes before anything is made. So when the process dies in between, the next request with the key
makes it under the same id, or finds it. One process at a time works on a key, by a lock that ends with it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, select, update

from orchestrator.errors import Conflict, InfrastructureError
from orchestrator.locks import file_lock
from orchestrator.runs import service_tables as s
from orchestrator.runs.database import Database, insert_unless_there, now

KEPT = 86400.0
"""Seconds for which a key is known."""
WAIT = 30.0
"""Seconds to wait for another request with the same key."""
POLL = 0.02
"""Seconds between two looks whether it is done."""
STRIPES = 64
"""Files that are locked, where the database is a file: keys that share one wait for each other."""
MAX_LOCKS = 8
"""Keys that this process works on at once: on a server each holds a connection, beside the one it works with."""


@dataclass(frozen=True)
class Claim:
    """What a key stands for."""

    id: str
    """Of what it makes, or has made."""
    made: bool
    """Whether that has been made."""
    note: Any = None
    """What was noted when it was, as JSON."""


class Idempotency(Database):
    """The keys of all tenants, one room for a process. Safe to use from many threads and many processes."""

    def __init__(self, engine: Engine, folder: Path, clock: Callable[[], datetime] = now) -> None:
        """`folder` is where locks are, when the database is a file."""
        super().__init__(engine, clock)
        self._folder = folder
        self._slots = threading.BoundedSemaphore(MAX_LOCKS)

    @contextmanager
    def alone(self, tenant: str, key: str) -> Iterator[None]:
        """Hold a key. Raises `InfrastructureError` when another request holds it for longer than `WAIT`."""
        number = int.from_bytes(hashlib.sha256(f"{tenant}\0{key}".encode()).digest()[:8], signed=True)
        if not self._slots.acquire(timeout=WAIT):
            raise InfrastructureError("too many requests with an Idempotency-Key are worked on; ask again")
        try:
            with self._lock(number):
                yield
        finally:
            self._slots.release()

    def claim(self, tenant: str, key: str, digest: str, new_id: str) -> Claim:
        """What the key stands for: `new_id`, when it is new. Raises `Conflict` when it came with another `digest`."""
        c, moment = s.idempotency.c, self._now()
        values = {"tenant": tenant, "key": key, "digest": digest, "result": {"id": new_id, "made": False}}
        with self._writing() as connection:
            connection.execute(delete(s.idempotency).where(c.created_at < moment - timedelta(seconds=KEPT)))
            connection.execute(insert_unless_there(connection, s.idempotency).values(**values, created_at=moment))
            row = connection.execute(select(s.idempotency).where(c.tenant == tenant, c.key == key)).one()
        if row.digest != digest:
            raise Conflict(f"Idempotency-Key '{key}' was used for another request: take a new key for a new request")
        return Claim(row.result["id"], row.result["made"], row.result.get("note"))

    def done(self, tenant: str, key: str, made_id: str, note: Any = None) -> None:
        """Record that what the key stands for has been made, and a note about it, which can be JSON."""
        c = s.idempotency.c
        with self._writing() as connection:
            statement = update(s.idempotency).where(c.tenant == tenant, c.key == key)
            connection.execute(statement.values(result={"id": made_id, "made": True, "note": note}))

    @contextmanager
    def _lock(self, number: int) -> Iterator[None]:
        if self._engine.dialect.name == "sqlite":
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with file_lock(self._folder / str(number % STRIPES), timeout=WAIT, why="a request with the same key"):
                yield
            return
        connection = self._server_lock(number)
        try:
            yield
        finally:
            connection.detach()  # closing it lets go of the lock, whatever happened to it
            connection.close()

    def _server_lock(self, number: int) -> Connection:
        """A connection that holds the lock."""
        deadline = time.monotonic() + WAIT
        while True:
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            try:
                if connection.execute(select(func.pg_try_advisory_lock(number))).scalar():
                    return connection
            except BaseException:
                connection.close()
                raise
            connection.close()
            if time.monotonic() > deadline:
                raise InfrastructureError(f"another request with this Idempotency-Key goes on for over {WAIT:.0f} s; ask again")
            time.sleep(POLL)
