"""The tables of the record: runs, and what happened in them. A change here needs a migration."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    false,
    text,
)

from orchestrator.runs.columns import PlainText, UtcDateTime, metadata

WAITING = text("status = 'pending' AND dispatched_at IS NULL AND parent_id IS NULL")
"""The queue: runs that are still to be sent to a worker. Children never are: the worker that has their parent takes them."""
HOUSED = text("sandbox IS NOT NULL AND (status = 'interrupted' OR (status = 'pending' AND dispatched_at IS NULL))")
"""Runs that have a sandbox while no worker has them, nor is to have them."""
_CHILDREN = text("parent_id IS NOT NULL")
_MEMBERS = text("root_id IS NOT NULL")

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
    Column("tenant", String(64), nullable=False, server_default="default"),
    Column("labels", JSON, nullable=False, server_default="{}"),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("provider", String(100), nullable=False, server_default="local"),
    Column("thread_id", String(32)),
    Column("batch_id", String(32)),
    Column("ready_at", UtcDateTime),
    Column("dispatched_at", UtcDateTime),
    Column("lost", Integer, nullable=False, server_default="0"),
    Column("sandbox_ready", Boolean, nullable=False, server_default=false()),
    Column("interrupt", JSON(none_as_null=True)),
    Column("decision", JSON(none_as_null=True)),
    Column("decide_by", UtcDateTime),
    Column("waited", Double, nullable=False, server_default="0"),
    Column("traceparent", String(64)),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("outcome", JSON(none_as_null=True)),
    Column("snapshot", String(64)),
    Column("parent_id", ForeignKey("runs.id", ondelete="CASCADE")),
    Column("root_id", String(32)),
    Column("depth", Integer, nullable=False, server_default="0"),
    Column("fan_out", String(64)),
    Column("place", Integer),
    Column("choice", JSON(none_as_null=True)),
    Index("ix_runs_created_at", "created_at"),
    Index("ix_runs_status", "status", "dispatched_at"),
    Index("ix_runs_tenant", "tenant", "created_at"),
    Index("ix_runs_thread", "thread_id"),
    Index("ix_runs_batch", "batch_id"),
    Index("ix_runs_queue", "tenant", "priority", "created_at", sqlite_where=WAITING, postgresql_where=WAITING),
    Index(
        "ix_runs_children", "parent_id", "fan_out", "place", unique=True,
        sqlite_where=_CHILDREN, postgresql_where=_CHILDREN,
    ),
    Index("ix_runs_housed", "provider", sqlite_where=HOUSED, postgresql_where=HOUSED),
    Index("ix_runs_tree", "root_id", sqlite_where=_MEMBERS, postgresql_where=_MEMBERS),
)

fan_outs = Table(
    "fan_outs",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("base", String(64)),
    Column("plan", String(64)),
    Column("result", JSON(none_as_null=True)),
    Column("created_at", UtcDateTime, nullable=False),
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
    Column("queues", JSON, nullable=False, server_default='["fanfold"]'),
    Column("providers", JSON(none_as_null=True)),
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
