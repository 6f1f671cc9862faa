"""Files of this repository that a script writes from others: written anew, or looked at whether they are stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(script: str, about: str | None, files: Mapping[Path, str], folders: Iterable[Path] = ()) -> int:
    """The command line of such a script: write `files`, or with `--check` say which are stale. The exit code.

    In `folders` there is nothing but what is among `files`.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="write nothing; say what is stale")
    check = parser.parse_args().check
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    gone = [path for folder in folders for path in sorted(folder.glob("*")) if path not in files]
    if check:
        for path in stale + gone:
            sys.stderr.write(f"{path.relative_to(ROOT)} is stale: python scripts/{Path(script).name}\n")
        return 1 if stale or gone else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path])
    for path in gone:
        path.unlink()
    return 0
