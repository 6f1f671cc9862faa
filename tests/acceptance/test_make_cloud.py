"""`make test-cloud`, with servers of ours in the place of the clouds: it finds the accounts, checks, and leaves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.wire.daytona.fixtures import Elsewhere, daytona_elsewhere
from tests.wire.modal.fixtures import IMAGE, modal_by_hand

__all__ = ["daytona_elsewhere", "modal_by_hand"]

ROOT = Path(__file__).parents[2]
SECONDS = 200
FEW = "destroying_is_final or found_by_their_labels or children_have_what"
"""Checks of the kit that make sandboxes and forks of their own."""


def cloud(**variables: str) -> subprocess.CompletedProcess[str]:
    """What the target runs, of a few checks."""
    command = [sys.executable, "-m", "pytest", "-rs", "tests/cloud", "-k", FEW]
    others = {name: value for name, value in os.environ.items() if not name.startswith(("MODAL_", "DAYTONA_"))}
    environment = {**others, "FANFOLD_TEST_CLOUD": "1", "PYTEST_ADDOPTS": "", **variables}
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.docker
def test_the_kit_runs_over_an_account_of_modal(modal_by_hand: Mapping[str, str]) -> None:
    assert_checked(cloud(**{**modal_by_hand, "FANFOLD_MODAL_IMAGE": IMAGE}), without="DAYTONA_API_KEY")


def test_the_kit_runs_over_an_account_of_daytona(daytona_elsewhere: Elsewhere) -> None:
    done = cloud(DAYTONA_API_KEY=daytona_elsewhere.key, DAYTONA_API_URL=daytona_elsewhere.api_url)
    assert_checked(done, without="MODAL_TOKEN_ID, MODAL_TOKEN_SECRET")
    assert daytona_elsewhere.names() == []


def assert_checked(done: subprocess.CompletedProcess[str], *, without: str) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"no account: {without} not set" in done.stdout
    assert "SKIPPED [1]" in done.stdout
