"""Writes what is in an image as a CycloneDX document: `python scripts/sbom.py IMAGE...` makes `build/sbom/NAME.cdx.json`.

The image says it: dpkg knows Debian's packages, Python those of its environments, and npm's folder its own. It runs without a
network and with nothing that it could write to. A document is validated before it is written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "sbom"
SCHEMA = SchemaVersion.V1_6
SECONDS = 60
"""For one question to an image."""
DEB = r"dpkg-query -W -f '${Package}\t${Version}\t${Architecture}\n'"
PYPI = """for python in python3 /opt/fanfold/bin/python; do ! command -v "$python" >/dev/null || "$python" -I -c '
from importlib.metadata import distributions
for one in distributions(): print(one.metadata["Name"], one.version, sep="\\t")'; done"""
NPM = """! command -v node >/dev/null || node -p '
const fs = require("fs"), top = "/usr/local/lib/node_modules";
const versions = [["node", process.versions.node]];
const walk = folder => fs.existsSync(folder) && fs.readdirSync(folder).forEach(name => {
  const below = `${folder}/${name}`;
  if (name.startsWith("@")) return walk(below);
  if (!fs.existsSync(`${below}/package.json`)) return;
  const told = JSON.parse(fs.readFileSync(`${below}/package.json`));
  if (told.version) versions.push([told.name, told.version]);
  walk(`${below}/node_modules`);
});
walk(top); versions.map(one => one.join("\\t")).join("\\n")'"""


class Failed(Exception):
    """An image did not say what is in it; the message says why."""


def document(image: str) -> str:
    """The CycloneDX JSON of an image. Raises `Failed`."""
    subject = Component(name=image.rpartition(":")[0] or image, version=image.rpartition(":")[2], type=ComponentType.CONTAINER)
    bom = Bom(components={Component(name=one.name, version=one.version, purl=one, bom_ref=str(one)) for one in packages(image)})
    bom.metadata.component = subject
    bom.register_dependency(subject, bom.components)
    bom.metadata.tools.components.add(
        Component(name="cyclonedx-python-lib", version=version("cyclonedx-python-lib"), type=ComponentType.LIBRARY)
    )
    text: str = make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string(indent=2)
    if wrong := JsonStrictValidator(SCHEMA).validate_str(text):
        raise Failed(f"{image}: the document is not CycloneDX {SCHEMA.to_version()}: {wrong}")
    return text


def packages(image: str) -> Iterator[PackageURL]:
    """Everything that is installed in an image."""
    for name, number, architecture in _rows(image, DEB):
        yield PackageURL("deb", "debian", name, number, {"arch": architecture})
    for name, number in _rows(image, PYPI):
        yield PackageURL("pypi", None, canonicalize_name(name), number)
    for name, number in _rows(image, NPM):
        scope, _, short = name.rpartition("/")
        yield PackageURL("generic" if name == "node" else "npm", scope or None, short, number)


def _rows(image: str, script: str) -> list[tuple[str, ...]]:
    command = ["docker", "run", "--rm", "--network", "none", "--read-only", "--entrypoint", "sh", image, "-ec", script]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Failed(f"{image}: {exc}") from exc
    if done.returncode:
        raise Failed(f"{image}: exit code {done.returncode}: {done.stderr.strip()}")
    return sorted({tuple(line.split("\t")) for line in done.stdout.splitlines() if line})


def components(text: str) -> dict[str, list[dict[str, Any]]]:
    """The components of a document by the kind of their packages: `deb`, `pypi`, `npm`, `generic`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(text)["components"]:
        found.setdefault(PackageURL.from_string(one["purl"]).type, []).append(one)
    return found


def main() -> int:
    """Write the documents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", nargs="+", metavar="IMAGE", help="of this machine's engine")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder of the documents; default build/sbom")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for image in given.images:
        try:
            text = document(image)
        except Failed as exc:
            print(f"sbom: {exc}", file=sys.stderr)
            return 1
        path = given.out / f"{image.rpartition('/')[2].partition(':')[0]}.cdx.json"
        path.write_text(text)
        print(f"sbom: {path}: " + ", ".join(f"{len(found)} {kind}" for kind, found in sorted(components(text).items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
