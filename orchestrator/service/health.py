"""Whether what an installation stands on answers."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.errors import InfrastructureError
from orchestrator.service.installation import Installation

TIMEOUT = 2
"""Seconds for the broker to answer."""


def check_installation(installation: Installation) -> None:
    """See that the record and the broker answer; an embedded broker is started. Raises `InfrastructureError`."""
    try:
        with installation.engine.connect() as connection:
            connection.execute(select(1))
    except SQLAlchemyError as exc:
        raise InfrastructureError(f"the record does not answer: {getattr(exc, 'orig', None) or exc}") from exc
    installation.broker.ensure()
    if not installation.broker.embedded:
        _ping(installation)


def _ping(installation: Installation) -> None:
    from kombu.exceptions import OperationalError

    try:
        with installation.app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, timeout=TIMEOUT)
    except (OperationalError, OSError) as exc:
        raise InfrastructureError(f"the broker does not answer ({exc}); check FANFOLD_REDIS_URL") from exc
