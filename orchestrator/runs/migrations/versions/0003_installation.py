"""Who this installation is, and which controller leads: one row, made here once and for all."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    installation = op.create_table(
        "installation",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("leader", sa.String(200)),
        sa.Column("leads_until", sa.DateTime(timezone=True)),
    )
    op.bulk_insert(installation, [{"id": secrets.token_hex(8), "leader": None, "leads_until": None}])


def downgrade() -> None:
    """Undo."""
    op.drop_table("installation")
