"""README and docs as what they are for a reader: text with files to write, commands to type and snippets to run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.yaml)\n")
"""The first line of a block that is a file."""
SHOWN = re.compile(r"(?:^ *print\(.*\)  # |  # -> )(.+)$", re.MULTILINE)
"""What a page says that a command (`# -> text`) or a snippet (`print(...)  # text`) prints."""
UP = re.compile(r"^fanfold up( +#.*)?\n", re.MULTILINE)
"""The line that starts what the test has started already."""


def blocks(page: Path, *languages: str) -> Iterator[tuple[str, str]]:
    """The language and the text of each block of a page in these languages."""
    return ((kind, text) for kind, text in BLOCK.findall(page.read_text()) if kind in languages)


def name_of(text: str) -> str | None:
    """The name of the file that a block is, if it is one."""
    found = FILE.match(text)
    return found[1] if found else None


def files(page: Path) -> dict[str, str]:
    """What the reader of a page has: the files of all pages, and of those with the same name the page's own."""
    found = [text for one in [*PAGES, page] for _, text in blocks(one, "yaml")]
    return {name: text for text in found if (name := name_of(text))}


def write_files(page: Path, folder: Path) -> None:
    """Write them, and a folder `repo` with a library and its tests."""
    (folder / "repo").mkdir()
    (folder / "repo" / "README").write_text("A library.\n")
    (folder / "repo" / "test_it.py").write_text(
        "import unittest\n\n\nclass Case(unittest.TestCase):\n    def test_it(self):\n        pass\n"
    )
    for name, text in files(page).items():
        (folder / name).write_text(text)


def script(page: Path, folder: Path, addresses: dict[str, str]) -> Path | None:
    """The page as one shell script, in its order: a snippet sees what commands before it have exported. None without any.

    `addresses` are those that stand for others on the page.
    """
    lines = ["set -eux"]
    for number, (kind, text) in enumerate(blocks(page, "sh", "python")):
        for shown, real in addresses.items():
            text = text.replace(shown, real)
        if kind == "python":
            snippet = folder / f"snippet-{number}.py"
            snippet.write_text(text)
            text = f"PYTHONPATH={ROOT} {sys.executable} -P {snippet.name}"
        lines.append(UP.sub("", text))
    if len(lines) == 1:
        return None
    path = folder / "page.sh"
    path.write_text("\n".join(lines))
    return path


def shown(page: Path) -> list[str]:
    """What the page says is printed, in its order."""
    return [text for _, block in blocks(page, "sh", "python") for text in SHOWN.findall(block)]


def write_programs(folder: Path) -> None:
    """`fanfold` and `python`, this checkout's; and a `make` that only looks whether there is such a target."""
    programs = {
        "fanfold": f'exec {sys.executable} -m orchestrator.cli.main "$@"',
        "python": f'PYTHONPATH={ROOT} exec {sys.executable} "$@"',
        "make": f'grep -q "^$1:" {ROOT / "Makefile"}',
    }
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
