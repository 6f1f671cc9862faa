"""The families of runs: the children of a fan-out are runs as well, and what is noted of the fan-out itself.

Every run of before is the top of its tree, and has no children.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
QUEUE = ["tenant", "priority", "created_at"]
WAITING = "status = 'pending' AND dispatched_at IS NULL"
CHILDREN = sa.text("parent_id IS NOT NULL")
MEMBERS = sa.text("root_id IS NOT NULL")


def upgrade() -> None:
    """Apply."""
    op.execute("ALTER TABLE runs ADD COLUMN parent_id VARCHAR(32) REFERENCES runs (id) ON DELETE CASCADE")
    op.add_column("runs", sa.Column("root_id", sa.String(32)))
    op.add_column("runs", sa.Column("depth", sa.Integer, nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("fan_out", sa.String(64)))
    op.add_column("runs", sa.Column("place", sa.Integer))
    op.create_index(
        "ix_runs_children", "runs", ["parent_id", "fan_out", "place"], unique=True,
        sqlite_where=CHILDREN, postgresql_where=CHILDREN,
    )  # fmt: skip
    op.create_index("ix_runs_tree", "runs", ["root_id"], sqlite_where=MEMBERS, postgresql_where=MEMBERS)
    _queue_of(f"{WAITING} AND parent_id IS NULL")
    op.create_table(
        "fan_outs",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("base", sa.String(64)),
        sa.Column("plan", sa.String(64)),
        sa.Column("result", sa.JSON(none_as_null=True)),
        sa.Column("created_at", MOMENT, nullable=False),
    )


def _queue_of(waiting: str) -> None:
    """The index of the queue, of runs for which this holds."""
    op.drop_index("ix_runs_queue", "runs")
    where = sa.text(waiting)
    op.create_index("ix_runs_queue", "runs", QUEUE, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Undo. Children go: nothing would tell them from runs that somebody submitted."""
    op.execute("DELETE FROM runs WHERE parent_id IS NOT NULL")
    op.drop_table("fan_outs")
    op.drop_index("ix_runs_children", "runs")
    op.drop_index("ix_runs_tree", "runs")
    _queue_of(WAITING)
    for column in ("place", "fan_out", "depth", "root_id", "parent_id"):
        op.drop_column("runs", column)
