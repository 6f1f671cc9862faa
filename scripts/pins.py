"""Writes the versions that the image of the control plane has: those of the environment that this runs in, which `make` made.

`python scripts/pins.py` writes; `--check` says what `pyproject.toml` asks for and the pins do not give, and ends with exit
code 1. What is tested is then what is shipped, and an image that is built again has the same in it.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PINS = ROOT / "images" / "controlplane" / "requirements.txt"
EXTRAS = ("docker", "modal", "daytona", "anthropic", "openai", "postgres", "s3", "tracing")
"""What the image has beyond what Fanfold always needs: every provider, database and bucket, and models."""
PYTHON = {"python_version": "3.11", "python_full_version": "3.11.2", "implementation_version": "3.11.2"}
"""The image's: Debian's. Some packages need others below a certain patch release."""
ELSEWHERE = {"async-timeout": "5.0.1"}
"""Versions of what such packages need there, and nobody here."""
HEAD = "# Written by scripts/pins.py from an environment that was tested. Everything that the image has, and nothing else.\n"


def wanted() -> list[Requirement]:
    """What pyproject.toml asks for, with the extras of the image."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return [Requirement(text) for text in [*project["dependencies"], *(one for name in EXTRAS for one in extras[name])]]


def closure(requirements: Iterable[Requirement]) -> dict[str, str]:
    """Names and versions of these and of all that they need, as they are installed here. Raises `PackageNotFoundError`."""
    found: dict[str, str] = {}
    waiting, seen = list(requirements), set()
    while waiting:
        one = waiting.pop()
        key = (canonicalize_name(one.name), frozenset(one.extras))
        if key in seen or not applies(one, ("",)):
            continue
        seen.add(key)
        if key[0] in ELSEWHERE:
            found[key[0]] = ELSEWHERE[key[0]]
            continue
        installed = distribution(one.name)
        found[key[0]] = installed.version
        waiting += [_unmarked(need) for need in map(Requirement, installed.requires or ()) if applies(need, one.extras)]
    return found


def applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Whether it holds in the image, for somebody who asked for these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({**PYTHON, "extra": extra}) for extra in ("", *extras))


def _unmarked(requirement: Requirement) -> Requirement:
    requirement.marker = None
    return requirement


def pins(text: str) -> dict[str, str]:
    """Names and versions of a file of pins."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def problems(pinned: dict[str, str]) -> Iterator[str]:
    """What the pins do not give that is asked for."""
    for one in filter(lambda one: applies(one, ()), wanted()):
        version = pinned.get(canonicalize_name(one.name))
        if version is None:
            yield f"{one.name} is not pinned"
        elif not one.specifier.contains(version, prereleases=True):
            yield f"{one.name} is pinned to {version}, and pyproject.toml asks for {one.specifier}"


def main() -> int:
    """Write the pins, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say what is missing")
    if parser.parse_args().check:
        found = list(problems(pins(PINS.read_text())))
        for line in found:
            print(f"pins: {line}: run `python scripts/pins.py`", file=sys.stderr)
        return 1 if found else 0
    try:
        versions = closure(wanted())
    except PackageNotFoundError as exc:
        print(f"pins: {exc.name} is not installed here: run this with the Python of `make check`", file=sys.stderr)
        return 1
    PINS.write_text(HEAD + "".join(f"{name}=={version}\n" for name, version in sorted(versions.items())))
    print(f"pins: {len(versions)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
