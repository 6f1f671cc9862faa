"""The tables of what is served around runs: tenants and keys, batches, threads, schedules, webhooks, uploads.

A change here needs a migration. Every row belongs to a tenant, its own or that of what it hangs on.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    text,
)

from orchestrator.runs.columns import PlainText, UtcDateTime, metadata

tenants = Table(
    "tenants",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("created_at", UtcDateTime, nullable=False, server_default=text("CURRENT_TIMESTAMP")),
    Column("weight", Double, nullable=False, server_default="1"),
    Column("served", Double, nullable=False, server_default="0"),
    Column("max_running", Integer),
    Column("max_queued", Integer),
    Column("max_requests", Integer),
    Column("max_tokens", BigInteger),
    Column("max_cost_micros", BigInteger),
    Column("max_sandbox_seconds", Double),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", ForeignKey("tenants.id"), nullable=False, index=True),
    Column("name", String(100), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("used_at", UtcDateTime),
)

batches = Table(
    "batches",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(64), nullable=False, index=True),
    Column("name", String(100), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("size", Integer, nullable=False),
)

threads = Table(
    "threads",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(64), nullable=False, index=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("metadata", JSON, nullable=False, key="meta"),
)

conversations = Table(
    "conversations",
    metadata,
    Column("thread_id", ForeignKey("threads.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("run_id", String(32), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""What was said in a thread, whole, after each of its runs; the one with the highest number holds."""

schedules = Table(
    "schedules",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(64), nullable=False, index=True),
    Column("name", String(100), nullable=False),
    Column("cron", String(200), nullable=False),
    Column("timezone", String(64), nullable=False),
    Column("order", JSON, nullable=False),
    Column("overlap", String(16), nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("next_at", UtcDateTime, index=True),
    Column("last_at", UtcDateTime),
    Column("last_run_id", String(32)),
    Column("last_error", PlainText),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(64), nullable=False, index=True),
    Column("url", PlainText, nullable=False),
    Column("secret", Text, nullable=False),
    Column("events", JSON, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("webhook_id", ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("run_id", String(32), nullable=False),
    Column("event", String(64), nullable=False),
    Column("payload", JSON, nullable=False),
    Column("status", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("next_at", UtcDateTime, index=True),
    Column("answer", Integer),
    Column("error", PlainText),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("tenant", String(64), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("result", JSON(none_as_null=True)),
    Column("created_at", UtcDateTime, nullable=False, index=True),
)

uploads = Table(
    "uploads",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", String(64), nullable=False, index=True),
    Column("size", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("created_at", UtcDateTime, nullable=False, index=True),
)

kept_sandboxes = Table(
    "kept_sandboxes",
    metadata,
    Column("sandbox_id", String(64), primary_key=True),
    Column("run_id", String(32), nullable=False),
    Column("until", UtcDateTime, nullable=False),
)
"""Sandboxes that somebody looks into: nobody ends them before that moment."""
