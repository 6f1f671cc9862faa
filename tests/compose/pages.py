"""docs/compose.md and docs/backup.md as what an operator types: each section is a script, run in a stack's folder."""

from __future__ import annotations

import re
import shutil
import subprocess

from tests.acceptance.pages import ROOT, SHOWN, write_programs
from tests.compose.stack import CALL_SECONDS, Stack

BLOCK = re.compile(r"^```compose\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMAGE = "fanfold/controlplane:0.1.0"
"""What the pages call the image of the control plane."""


def sections(name: str) -> dict[str, str]:
    """What is to be typed in each section of a page, by its heading."""
    parts = re.split(r"^## (.+)\n", (ROOT / "docs" / name).read_text(), flags=re.MULTILINE)
    found = {heading: "".join(BLOCK.findall(text)) for heading, text in zip(parts[1::2], parts[2::2], strict=True)}
    return {heading: text for heading, text in found.items() if text}


def type_in(stack: Stack, script: str, **environ: str) -> str:
    """Type what a section says; what was printed, of which what it says to be printed is a part."""
    programs = stack.folder.parent / "bin"
    if not programs.exists():
        write_programs(programs)
        (programs / "docker").write_text(
            f'#!/bin/sh\nif [ "$1" = compose ]; then shift; exec {stack.program} "$@"; fi\nexec {shutil.which("docker")} "$@"\n'
        )
        (programs / "docker").chmod(0o755)
    environment = stack.environment(**environ)
    typed = stack.folder.parent / "typed.sh"
    typed.write_text(script)
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    done = subprocess.run(
        ["sh", "-eux", typed], stdin=subprocess.DEVNULL, cwd=stack.folder, env=environment,
        capture_output=True, text=True, timeout=CALL_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{stack.logs()}"
    for text in SHOWN.findall(script):
        assert text in done.stdout, f"this is to be printed: {text}\n{done.stdout}"
    return done.stdout
