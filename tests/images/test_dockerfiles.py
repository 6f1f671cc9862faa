"""The Dockerfiles, before anything is built: their lint, and the versions that they pin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import pins
from scripts.images import NAMES, ROOT

HADOLINT = Path(sys.executable).with_name("hadolint")
DOCKERFILES = sorted(ROOT.glob("[!.]*/**/Dockerfile"))


def test_there_is_one_for_each_image() -> None:
    assert {path.parent.name for path in DOCKERFILES if path.parents[1] == ROOT / "images"} == set(NAMES)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_hadolint_has_nothing_to_say(path: Path) -> None:
    done = subprocess.run([HADOLINT, path], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_it_fetches_by_the_settings_of_its_base_alone(path: Path) -> None:
    text = path.read_text()
    assert "://" not in text
    assert "# syntax" not in text


def test_the_pins_give_what_is_asked_for() -> None:
    assert list(pins.problems(pins.pins(pins.PINS.read_text()))) == []


def test_a_pin_that_is_missing_or_too_old_is_told() -> None:
    pinned = pins.pins(pins.PINS.read_text())
    del pinned["fastapi"]
    told = list(pins.problems({**pinned, "celery": "4.0"}))
    assert told == ["celery is pinned to 4.0, and pyproject.toml asks for >=5.5", "fastapi is not pinned"]


def test_what_only_the_images_python_needs_is_pinned_too() -> None:
    assert pins.ELSEWHERE.items() <= pins.pins(pins.PINS.read_text()).items()
