"""The tables of langgraph's checkpoints: how far an agent is. A change here needs a migration."""

from __future__ import annotations

from sqlalchemy import JSON, Column, ForeignKey, Integer, LargeBinary, String, Table, Text

from orchestrator.runs.columns import metadata


def _run() -> Column[str]:
    return Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, index=True)


checkpoints = Table(
    "checkpoints",
    metadata,
    Column("thread", String(100), primary_key=True),
    Column("ns", Text, primary_key=True),
    Column("id", String(64), primary_key=True),
    _run(),
    Column("parent_id", String(64)),
    Column("kind", String(32), nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("metadata", JSON, nullable=False, key="meta"),
)

blobs = Table(
    "checkpoint_blobs",
    metadata,
    Column("thread", String(100), primary_key=True),
    Column("ns", Text, primary_key=True),
    Column("channel", Text, primary_key=True),
    Column("version", String(64), primary_key=True),
    _run(),
    Column("kind", String(32), nullable=False),
    Column("data", LargeBinary, nullable=False),
)

writes = Table(
    "checkpoint_writes",
    metadata,
    Column("thread", String(100), primary_key=True),
    Column("ns", Text, primary_key=True),
    Column("checkpoint_id", String(64), primary_key=True),
    Column("task_id", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    _run(),
    Column("channel", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("data", LargeBinary, nullable=False),
)
