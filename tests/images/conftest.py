"""Images of this checkout."""

from __future__ import annotations

import pytest

from tests.images.built import build_all


@pytest.fixture(scope="session")
def built(_engine_problem: str | None) -> None:
    """Whoever asks for this, marked `docker`, has all images."""
    if _engine_problem is None:
        build_all()
