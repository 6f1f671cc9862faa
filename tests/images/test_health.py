"""The control plane's health check, in its roles; and what docs/images.md says to type."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import until
from tests.acceptance.pages import ROOT, blocks
from tests.images.built import PLAN, docker

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900), pytest.mark.usefixtures("built")]

ROLES = {"api": ["api", "--port", "8123"], "worker": ["worker"], "controller": ["controller"]}
LOCKED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
PLACES = ("--tmpfs", "/tmp", "--tmpfs", "/var/lib/fanfold")
HEALTHY = ("-I", "-S", "/usr/local/lib/fanfold/healthy.py")
PAGE = ROOT / "docs" / "images.md"


@pytest.fixture(params=ROLES)
def running(request: pytest.FixtureRequest) -> Iterator[str]:
    """A container in a role, which looks after itself each second."""
    name = f"ff-image-{uuid.uuid4().hex[:8]}"
    command = ROLES[request.param]
    docker("run", "--detach", "--name", name, "--health-interval", "1s", *LOCKED, *PLACES, PLAN.image("controlplane"), *command)
    try:
        yield name
    finally:
        docker("rm", "--force", "--volumes", name)


def health(container: str) -> str:
    return docker("inspect", "--format", "{{.State.Health.Status}}", container).stdout.strip()


def test_who_serves_is_well_and_who_hangs_is_not(running: str) -> None:
    until(lambda: health(running) == "healthy", "it is well")
    docker("kill", "--signal", "STOP", running)
    asked = docker("exec", running, "python", *HEALTHY, check=False)
    assert asked.returncode == 1, asked.stdout
    assert "timed out" in asked.stdout


def test_who_only_runs_is_well_as_long_as_it_does() -> None:
    done = docker("run", "--rm", *LOCKED, "--entrypoint", "python", PLAN.image("controlplane"), *HEALTHY, check=False)
    assert (done.returncode, done.stdout) == (0, "runs\n")


def test_what_the_page_says_to_type_works() -> None:
    """Under names of its own, and at any port that is free."""
    own = f"ff-image-{uuid.uuid4().hex[:8]}"
    [(_, text)] = blocks(PAGE, "docker")
    for shown, real in {
        "fanfold/controlplane:0.1.0": PLAN.image("controlplane"), "fanfold-api": f"{own}-api", ":8000:8000": "::8000",
        "volume create fanfold": f"volume create {own}", "volume rm fanfold": f"volume rm {own}", " fanfold:/": f" {own}:/",
    }.items():  # fmt: skip
        assert shown in text
        text = text.replace(shown, real)
    done = subprocess.run(["sh", "-eux", "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "is at revision" in done.stdout
