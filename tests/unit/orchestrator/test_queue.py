"""A look at the queue when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.queue import make_app, nothing_queued


def test_a_queue_without_a_broker_is_told_in_words(tmp_path: Path) -> None:
    app = make_app(f"redis+socket://{tmp_path}/nothing.sock")
    with app, pytest.raises(InfrastructureError, match="the broker does not answer"):
        nothing_queued(app)
