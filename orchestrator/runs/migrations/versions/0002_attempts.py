"""Attempts, each with its worker, its times and its error. Of a run of before, the last one is what its row tells."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("worker", sa.String(200), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
        sa.Column("error_kind", sa.String(16)),
        sa.Column("error_message", sa.Text),
        sa.Column("provider", sa.Text),
        sa.Column("sandbox_id", sa.Text),
    )
    op.execute(
        "INSERT INTO attempts (run_id, number, worker, status, started_at, finished_at, error_kind, error_message)"
        " SELECT id, attempt, worker, status, started_at, finished_at, error_kind, error_message FROM runs"
        " WHERE attempt > 0 AND worker IS NOT NULL AND started_at IS NOT NULL"
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("attempts")
