"""Whichever step of a fan-out is a worker's last: the next worker ends the run, nothing is done twice, and nothing is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import Settings
from tests.conftest import IMAGES
from tests.services import postgres_server

PROGRAM = Path(__file__).with_name("killed.py")
ROOT = Path(__file__).parents[4]
DEADLINE = 900.0
"""Seconds for all steps of one kind; the machine may be busy with other tests."""
ALL, EIGHTH, MORE = 60, 8, 25
"""Steps at least: of a fan-out, of it when only each eighth is tried, and of what a special one has in addition."""

Home = Callable[..., AbstractContextManager[Settings]]


def trials(new_home: Home, folder: Path, provider: str, kind: str, every: int, **variables: str) -> Iterator[dict[str, Any]]:
    """What the program tells of each step."""
    with new_home(DOCKER_IMAGE=IMAGES[0], **variables):
        command = [sys.executable, "-B", PROGRAM, provider, kind, folder, str(every)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert ended.returncode == 0, ended.stderr
    yield from (json.loads(line) for line in ended.stdout.splitlines())


def assert_whole(found: list[dict[str, Any]], fewest: int) -> None:
    assert len(found) >= fewest
    wrong = [one for one in found if one["codes"] != one["expected"] or one["breaches"]]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.timeout(DEADLINE + 30)
@pytest.mark.parametrize("kind", ["declared", "agent"])
def test_nothing_is_lost_or_done_twice_wherever_its_worker_dies(new_home: Home, tmp_path: Path, kind: str) -> None:
    assert_whole(list(trials(new_home, tmp_path, "local", kind, 1)), ALL)


@pytest.mark.timeout(DEADLINE + 30)
@pytest.mark.parametrize("kind", ["asking", "nested"])
def test_resolvers_and_grandchildren_are_taken_over_too(new_home: Home, tmp_path: Path, kind: str) -> None:
    assert_whole(list(trials(new_home, tmp_path, "local", kind, 1)), MORE)


@pytest.mark.timeout(DEADLINE + 30)
def test_nothing_is_lost_or_done_twice_with_the_record_in_postgresql(new_home: Home, tmp_path: Path) -> None:
    with postgres_server() as server, server.fresh_database() as url:
        address = url.render_as_string().replace("postgresql+psycopg", "postgresql")
        assert_whole(list(trials(new_home, tmp_path, "local", "agent", 8, DATABASE_URL=address)), EIGHTH)


@pytest.mark.docker
@pytest.mark.timeout(DEADLINE + 30)
@pytest.mark.parametrize("kind", ["declared", "agent"])
def test_no_container_volume_or_image_is_left(new_home: Home, tmp_path: Path, kind: str) -> None:
    assert_whole(list(trials(new_home, tmp_path, "docker", kind, 8)), EIGHTH)
