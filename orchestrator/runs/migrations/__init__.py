"""Alembic migrations of the record; `orchestrator.runs.schema` runs them."""
