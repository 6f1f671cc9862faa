"""Builds Fanfold's images, and records how big they are in docs/images.md.

`python scripts/images.py build` builds all of them, or those that are named; `names` prints how they are called, and
`sizes` writes the table of what was built.
BASE is what they stand on; BUILDER a base with more in it (certificates that pip needs, say), of which nothing stays.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "images.md"
NAMES = ("controlplane", "sandbox-base", "sandbox-python", "sandbox-node")
"""In the order in which they are built."""
ON_SANDBOX_BASE = ("sandbox-python", "sandbox-node")
WITH_BUILDER = ("controlplane", "sandbox-node")
DEBIAN = "debian:bookworm-slim"
BEGIN, END = "<!-- sizes: scripts/images.py -->\n", "<!-- end of sizes -->\n"
MEGABYTE = 1_000_000
BUILD_SECONDS = 1800
"""For one image."""
CALL_SECONDS = 60
"""For any other call of the engine."""


class Failed(Exception):
    """Something that was called did not do what it was to do; the message says what."""


@dataclass(frozen=True)
class Plan:
    """What images are built from, and how they are called: `PREFIX/NAME:TAG`."""

    base: str
    builder: str
    prefix: str
    tag: str

    def image(self, name: str) -> str:
        """The whole name of an image."""
        return f"{self.prefix}/{name}:{self.tag}"

    def arguments(self, name: str) -> dict[str, str]:
        """The build arguments of an image."""
        base = self.image("sandbox-base") if name in ON_SANDBOX_BASE else self.base
        builder = {"BUILDER": self.builder} if name in WITH_BUILDER else {}
        return {"BASE": base, **builder, "VERSION": version(), "REVISION": revision()}


def version() -> str:
    """Fanfold's own."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def revision() -> str:
    """The commit that is checked out."""
    try:
        return _call(["git", "rev-parse", "HEAD"], CALL_SECONDS).strip()
    except Failed:
        return "unknown"


def build(plan: Plan, names: Sequence[str]) -> None:
    """Build images, and say so. Raises `Failed` with what the builder said."""
    environ = dict(os.environ)
    if "DOCKER_BUILDKIT" not in environ and not _has_buildkit():
        environ["DOCKER_BUILDKIT"] = "0"
    for name in sorted({*names, *(["sandbox-base"] if set(names) & set(ON_SANDBOX_BASE) else [])}, key=NAMES.index):
        command = ["docker", "build", "--tag", plan.image(name), "--file", str(ROOT / "images" / name / "Dockerfile")]
        for key, value in plan.arguments(name).items():
            command += ["--build-arg", f"{key}={value}"]
        _call([*command, str(ROOT)], BUILD_SECONDS, environ)
        print(f"images: {plan.image(name)}: {megabytes(plan.image(name))} MB", flush=True)


def _has_buildkit() -> bool:
    try:
        _call(["docker", "buildx", "version"], CALL_SECONDS)
    except Failed:
        return False
    return True


def megabytes(image: str) -> int:
    """The size of an image on the engine, with what it stands on."""
    return round(int(_call(["docker", "image", "inspect", "--format", "{{.Size}}", image], CALL_SECONDS)) / MEGABYTE)


def recorded() -> dict[str, int]:
    """What the page says: megabytes by the image's name."""
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    return {name: int(size) for name, size in re.findall(r"^\| `([\w-]+)` \| (\d+) MB \|", table, re.MULTILINE)}


def tell(plan: Plan, names: Sequence[str]) -> None:
    """Print the whole names of images."""
    print(*map(plan.image, names))


def record(plan: Plan, names: Sequence[str]) -> None:
    """Write the sizes of what is built into the page. Raises `Failed` when one of them is not."""
    rows = [f"| `{name}` | {megabytes(plan.image(name))} MB | {megabytes(plan.image(name)) - megabytes(plan.base)} MB |"
            for name in names]  # fmt: skip
    table = "\n".join(["| image | size | without its base |", "|---|---|---|", *rows])
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    if not begin:
        raise Failed(f"{PAGE} has no line {BEGIN.strip()!r}")
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n\n{END}{rest.partition(END)[2]}")


def _call(command: Sequence[str], seconds: float, environ: dict[str, str] | None = None) -> str:
    if shutil.which(command[0]) is None:
        raise Failed(f"there is no program {command[0]} here: install it")
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as exc:
        raise Failed(f"{' '.join(command[:2])}: not within {seconds:g} s") from exc
    if done.returncode:
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-8000:]}{done.stderr[-8000:]}")
    return done.stdout


ACTIONS = {"build": build, "names": tell, "sizes": record}


def main() -> int:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=ACTIONS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--base", default=DEBIAN, help="the image that they stand on, with Debian's apt; default %(default)s")
    parser.add_argument("--builder", help="the image in which packages are fetched; default: the base")
    parser.add_argument("--prefix", default="fanfold", help="what their names begin with; default %(default)s")
    parser.add_argument("--tag", default=version(), help="default: Fanfold's version, %(default)s")
    given = parser.parse_args()
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"there is no image {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    plan = Plan(given.base, given.builder or given.base, given.prefix, given.tag)
    try:
        ACTIONS[given.what](plan, given.names or NAMES)
    except Failed as exc:
        print(f"images: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
