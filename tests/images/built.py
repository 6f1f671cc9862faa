"""Fanfold's own images, of this checkout, as the tests have them: `scripts/fanfold-images.sh` builds the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from scripts.images import NAMES, Plan, build
from tests.conftest import missing

PLAN = Plan("fanfold-test/base:latest", "fanfold-test/builder:latest", "fanfold-test", "latest")
SANDBOXES = tuple(name for name in NAMES if name.startswith("sandbox-"))
LOCKED = ("--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
"""The least that a container can be given."""
SECONDS = 120
"""For one call of the engine."""


def docker(*arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Call the engine."""
    done = subprocess.run(
        ["docker", *map(str, arguments)], capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    assert not check or done.returncode == 0, f"docker {arguments[0]}: {done.stderr}"
    return done


def build_all() -> None:
    """Build what this checkout has changed. Skips or fails the test where the base of the tests is missing."""
    if problem := docker("image", "inspect", PLAN.base, PLAN.builder, check=False).stderr.strip():
        missing(f"An image is missing: {problem}.")
    build(PLAN, NAMES)


def told(name: str) -> dict[str, Any]:
    """The configuration of an image."""
    [found] = json.loads(docker("image", "inspect", PLAN.image(name)).stdout)
    config: dict[str, Any] = found["Config"]
    return config


def sh(name: str, script: str, *options: str) -> str:
    """What a script prints in an image, locked up."""
    return docker("run", *LOCKED, *options, "--entrypoint", "sh", PLAN.image(name), "-ec", script).stdout
