"""What an installation that serves others needs: tenants and keys, batches, threads, schedules, webhooks, and checkpoints.

Every run belongs to a tenant; those of before to `default`. Their nudges were sent when they were submitted.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
NOW = sa.text("CURRENT_TIMESTAMP")
RUN_INDEXES = {
    "ix_runs_status": ["status", "dispatched_at"],
    "ix_runs_tenant": ["tenant", "created_at"],
    "ix_runs_thread": ["thread_id"],
    "ix_runs_batch": ["batch_id"],
}
TABLES = (
    "checkpoint_writes", "checkpoint_blobs", "checkpoints", "kept_sandboxes", "uploads", "idempotency", "deliveries",
    "webhooks", "schedules", "conversations", "threads", "batches", "api_keys", "tenants",
)  # fmt: skip


def _run_columns() -> "list[sa.Column[object]]":
    return [
        sa.Column("tenant", sa.String(64), nullable=False, server_default="default"),
        sa.Column("labels", sa.JSON, nullable=False, server_default="{}"),
        sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
        sa.Column("provider", sa.String(100), nullable=False, server_default="local"),
        sa.Column("thread_id", sa.String(32)),
        sa.Column("batch_id", sa.String(32)),
        sa.Column("ready_at", MOMENT),
        sa.Column("dispatched_at", MOMENT),
        sa.Column("lost", sa.Integer, nullable=False, server_default="0"),
        sa.Column("sandbox_ready", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("interrupt", sa.JSON(none_as_null=True)),
        sa.Column("decision", sa.JSON(none_as_null=True)),
        sa.Column("decide_by", MOMENT),
        sa.Column("waited", sa.Double, nullable=False, server_default="0"),
        sa.Column("traceparent", sa.String(64)),
        sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
        sa.Column("outcome", sa.JSON(none_as_null=True)),
        sa.Column("snapshot", sa.String(64)),
    ]


def upgrade() -> None:
    """Apply."""
    for column in _run_columns():
        op.add_column("runs", column)
    op.execute("UPDATE runs SET dispatched_at = created_at")
    op.execute("UPDATE runs SET lost = lease_token - 1 WHERE lease_token > 1")
    op.drop_index("ix_runs_status", "runs")
    for name, columns in RUN_INDEXES.items():
        op.create_index(name, "runs", columns)
    op.add_column("workers", sa.Column("queues", sa.JSON, nullable=False, server_default='["fanfold"]'))
    waiting = sa.text("status = 'pending' AND dispatched_at IS NULL")
    op.create_index(
        "ix_runs_queue", "runs", ["tenant", "priority", "created_at"],
        sqlite_where=waiting, postgresql_where=waiting,
    )  # fmt: skip
    _tenants()
    _groups()
    _webhooks()
    _places()
    _checkpoints()


def _tenants() -> None:
    tenants = op.create_table(
        "tenants",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("created_at", MOMENT, nullable=False, server_default=NOW),
        sa.Column("weight", sa.Double, nullable=False, server_default="1"),
        sa.Column("served", sa.Double, nullable=False, server_default="0"),
        sa.Column("max_running", sa.Integer),
        sa.Column("max_queued", sa.Integer),
        sa.Column("max_requests", sa.Integer),
        sa.Column("max_tokens", sa.BigInteger),
        sa.Column("max_cost_micros", sa.BigInteger),
        sa.Column("max_sandbox_seconds", sa.Double),
    )
    op.bulk_insert(tenants, [{"id": "default"}])
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("tenant", sa.String(64), sa.ForeignKey("tenants.id"), nullable=False, index=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT),
        sa.Column("revoked_at", MOMENT),
        sa.Column("used_at", MOMENT),
    )


def _groups() -> None:
    op.create_table(
        "batches",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False, index=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
    )
    op.create_table(
        "threads",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False, index=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False),
    )
    op.create_table(
        "conversations",
        sa.Column("thread_id", sa.String(32), sa.ForeignKey("threads.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("run_id", sa.String(32), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False, index=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("cron", sa.String(200), nullable=False),
        sa.Column("timezone", sa.String(64), nullable=False),
        sa.Column("order", sa.JSON, nullable=False),
        sa.Column("overlap", sa.String(16), nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("next_at", MOMENT, index=True),
        sa.Column("last_at", MOMENT),
        sa.Column("last_run_id", sa.String(32)),
        sa.Column("last_error", sa.Text),
    )


def _webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False, index=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("events", sa.JSON, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("webhook_id", sa.String(32), sa.ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False, index=True),
        sa.Column("run_id", sa.String(32), nullable=False),
        sa.Column("event", sa.String(64), nullable=False),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("next_at", MOMENT, index=True),
        sa.Column("answer", sa.Integer),
        sa.Column("error", sa.Text),
    )


def _places() -> None:
    op.create_table(
        "idempotency",
        sa.Column("tenant", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("result", sa.JSON(none_as_null=True)),
        sa.Column("created_at", MOMENT, nullable=False, index=True),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False, index=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False, index=True),
    )
    op.create_table(
        "kept_sandboxes",
        sa.Column("sandbox_id", sa.String(64), primary_key=True),
        sa.Column("run_id", sa.String(32), nullable=False),
        sa.Column("until", MOMENT, nullable=False),
    )


def _checkpoints() -> None:
    def run() -> "sa.Column[str]":
        return sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, index=True)

    def content() -> "tuple[sa.Column[str], sa.Column[bytes]]":
        return sa.Column("kind", sa.String(32), nullable=False), sa.Column("data", sa.LargeBinary, nullable=False)

    op.create_table(
        "checkpoints",
        sa.Column("thread", sa.String(100), primary_key=True),
        sa.Column("ns", sa.Text, primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        run(),
        sa.Column("parent_id", sa.String(64)),
        *content(),
        sa.Column("metadata", sa.JSON, nullable=False),
    )
    op.create_table(
        "checkpoint_blobs",
        sa.Column("thread", sa.String(100), primary_key=True),
        sa.Column("ns", sa.Text, primary_key=True),
        sa.Column("channel", sa.Text, primary_key=True),
        sa.Column("version", sa.String(64), primary_key=True),
        run(),
        *content(),
    )
    op.create_table(
        "checkpoint_writes",
        sa.Column("thread", sa.String(100), primary_key=True),
        sa.Column("ns", sa.Text, primary_key=True),
        sa.Column("checkpoint_id", sa.String(64), primary_key=True),
        sa.Column("task_id", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        run(),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        *content(),
    )


def downgrade() -> None:
    """Undo."""
    for table in TABLES:
        op.drop_table(table)
    for name in ("ix_runs_queue", *RUN_INDEXES):
        op.drop_index(name, "runs")
    for column in reversed(_run_columns()):
        op.drop_column("runs", column.name)
    op.create_index("ix_runs_status", "runs", ["status"])
    op.drop_column("workers", "queues")
