"""The providers that a worker knows, and which of them it cannot use: a task that no worker can serve is refused at once."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply. Workers of before tell nothing."""
    op.add_column("workers", sa.Column("providers", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    """Undo."""
    op.drop_column("workers", "providers")
