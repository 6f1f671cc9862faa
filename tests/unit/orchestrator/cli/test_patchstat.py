"""How much a patch changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from orchestrator.cli.patchstat import PatchStat


def test_lines_that_look_like_headers_count_as_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("-- old header\nsame\nlast")
    (tmp_path / "b").write_text("++ new header\nsame\nlast\n")
    patch = subprocess.run(["git", "diff", "--no-index", "a", "b"], cwd=tmp_path, capture_output=True).stdout

    assert PatchStat.of(patch.splitlines(keepends=True)) == PatchStat(files=1, added=2, removed=2)


def test_a_binary_change_counts_as_a_file() -> None:
    patch = b"diff --git a/x b/x\nGIT binary patch\nliteral 3\n+abc\n\n"

    assert PatchStat.of(patch.splitlines(keepends=True)) == PatchStat(files=1)


def test_it_is_said_in_words() -> None:
    assert str(PatchStat()) == "no changes"
    assert str(PatchStat(2, 3, 1)) == "2 files changed, 3 lines added, 1 removed"
