"""Each image as it is built: who it is, what it may, what is in it, how big it is."""

from __future__ import annotations

import re
import warnings

import pytest

from scripts import pins, sbom
from scripts.images import NAMES, ROOT, megabytes, recorded, revision, version
from tests.images.built import PLAN, docker, sh, told

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900), pytest.mark.usefixtures("built")]

SYSTEM = ("/bin", "/etc", "/lib", "/opt", "/sbin", "/usr")
STALE = 0.1
"""The part of an image's size by which the table may be wrong: Debian's packages grow with their fixes."""


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is(name: str) -> None:
    labels = {key.removeprefix("org.opencontainers.image."): text for key, text in told(name)["Labels"].items()}
    assert labels["title"] == f"fanfold/{name}"
    assert labels["version"] == version()
    assert labels["revision"] == revision()
    assert labels["description"]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_nobody_special_and_cannot_write_to_its_root(name: str) -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", told(name)["User"])
    assert sh(name, "id -u; id -g").split() == told(name)["User"].split(":")
    assert sh(name, "for one in / /usr /home/*; do touch $one/x 2>/dev/null || echo no; done").split() == ["no"] * 3


@pytest.mark.parametrize("name", NAMES)
def test_its_programs_belong_to_root_also_where_the_root_can_be_written(name: str) -> None:
    command = ("--entrypoint", "find", PLAN.image(name), *SYSTEM, "-writable", "!", "-type", "l")
    found = docker("run", "--rm", *command, check=False)  # it may not enter every folder
    assert found.stdout == ""


@pytest.mark.parametrize("name", NAMES)
def test_its_bill_of_materials_is_valid_and_whole(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = sbom.components(sbom.document(PLAN.image(name)))
    assert {"git", "libc6", "python3"} <= {one["name"] for one in found["deb"]}
    python = {one["name"]: one["version"] for one in found.get("pypi", ())}
    if name == "controlplane":
        assert python == {**pins.pins(pins.PINS.read_text()), "fanfold": version()}
    assert ("pytest" in python) == (name == "sandbox-python")
    assert ("npm" in {one["name"] for one in found.get("npm", ())}) == (name == "sandbox-node")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_knows_its_size(name: str) -> None:
    size = megabytes(PLAN.image(name))
    assert recorded()[name] == pytest.approx(size, rel=STALE), "run `python scripts/images.py sizes`"


def test_nothing_that_built_the_control_plane_is_left_in_it() -> None:
    assert sh("controlplane", "for one in gcc make pip pip3 ensurepip; do command -v $one || true; done") == ""
    for module in ("pip", "setuptools"):
        assert "No module named" in sh("controlplane", f"python -c 'import {module}' 2>&1 || true")
    assert "build" not in sh("controlplane", "ls -A /")
    assert sh("controlplane", "ls -A /var/lib/apt/lists /var/cache/apt").split() == ["/var/cache/apt:", "/var/lib/apt/lists:"]


def test_the_control_plane_has_the_script_that_gitlabs_template_calls() -> None:
    assert sh("controlplane", "cat /usr/local/lib/fanfold/task.py") == (ROOT / "ci" / "task.py").read_text()
