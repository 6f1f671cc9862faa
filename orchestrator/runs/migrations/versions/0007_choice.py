"""Runs that may have their sandbox on one of several providers, and the runs that have one while no worker has them.

`provider` is where a run's sandbox is or is to be; every run of before asks for that one alone.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

HOUSED = sa.text("sandbox IS NOT NULL AND (status = 'interrupted' OR (status = 'pending' AND dispatched_at IS NULL))")


def upgrade() -> None:
    """Apply."""
    op.add_column("runs", sa.Column("choice", sa.JSON(none_as_null=True)))
    op.create_index("ix_runs_housed", "runs", ["provider"], sqlite_where=HOUSED, postgresql_where=HOUSED)


def downgrade() -> None:
    """Undo. Runs keep the provider that they have, or asked for first."""
    op.drop_index("ix_runs_housed", "runs")
    op.drop_column("runs", "choice")
