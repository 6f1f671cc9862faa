"""What Alembic runs: it is given an open connection by `orchestrator.runs.schema`."""

from alembic import context

from orchestrator.runs import checkpoint_tables, service_tables, tables  # noqa: F401 - they fill the metadata
from orchestrator.runs.columns import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
