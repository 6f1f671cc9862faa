"""What attempts have used: tokens by agent and model, what they cost, and the time of the sandbox."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "usage",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("agent", sa.String(200), primary_key=True),
        sa.Column("model", sa.String(200), primary_key=True),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("cache_read_tokens", sa.BigInteger, nullable=False),
        sa.Column("cache_write_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost_micros", sa.BigInteger),
    )
    op.add_column("attempts", sa.Column("sandbox_seconds", sa.Double))


def downgrade() -> None:
    """Undo."""
    op.drop_column("attempts", "sandbox_seconds")
    op.drop_table("usage")
