"""What a job of a pipeline does: runs a task, and leaves the JUnit report, the patch, the artifacts and a summary.

It is told by variables: RUN_TASK, and if wanted RUN_PATH, RUN_PROVIDER, RUN_MODEL, RUN_SECRETS (names, separated by blanks) and
RUN_OUT, the folder of everything that is left. On GitHub the summary also goes to the page of the job, and what later steps may
use to GITHUB_OUTPUT. It ends with the exit code of `fanfold run`. It needs nothing but Python and `fanfold` on the path.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OPTIONS = {"RUN_PATH": "--path", "RUN_PROVIDER": "--provider", "RUN_MODEL": "--model"}
OUT = "fanfold-out"
PATCH_CAP = 200_000
"""Characters of the patch in the summary: GitHub takes a mebibyte for all of it, in bytes."""
TEXT_CAP = 4000
"""Characters of an error's message in the summary."""


def command(environ: Mapping[str, str], out: Path) -> list[str]:
    """What is run. Raises `ValueError` when no task is named."""
    if not environ.get("RUN_TASK"):
        raise ValueError("RUN_TASK names no task: set it (on GitHub the input `task`) to a task file, or to its folder")
    given = [word for name, option in OPTIONS.items() if environ.get(name) for word in (option, environ[name])]
    granted = [word for name in environ.get("RUN_SECRETS", "").split() for word in ("--secret", name)]
    left = ["--out", str(out), "--junit", str(out / "junit.xml"), "--output", "json"]
    return ["fanfold", "run", *given, *granted, *left, "--", environ["RUN_TASK"]]


@contextmanager
def no_commands(environ: Mapping[str, str]) -> Iterator[None]:
    """GitHub takes lines of the log for orders; what a sandbox prints must give none."""
    if environ.get("GITHUB_ACTIONS") != "true":
        yield
        return
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", flush=True)
    try:
        yield
    finally:
        print(f"::{token}::", flush=True)


def summary(code: int, told: Mapping[str, Any] | None, patch: str) -> str:
    """The summary, in Markdown. What comes from a sandbox stays text."""
    if told is None:
        return f"### Fanfold: no run (exit code {code})\n\nThe log of the job says why.\n"
    run = told["run"]
    lines = [f"### Fanfold: {_inline(run['name'])} ended as {_inline(run['status'])}", ""]
    lines += ["| run | exit code | seconds | provider |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(_inline(run[key]) for key in ('id', 'exit_code', 'seconds', 'provider'))} |", ""]
    if run["error"]:
        lines += [_fenced(run["error"]["message"][:TEXT_CAP]), ""]
    lines += [f"- {_inline(one['name'])}, {one['size']} bytes" for one in told["artifacts"]]
    if patch:
        shown = patch[:PATCH_CAP]
        rest = f"\nThe first {PATCH_CAP} characters.\n" if len(patch) > PATCH_CAP else ""
        lines += ["", "<details><summary>The patch</summary>", "", _fenced(shown, "diff"), rest, "</details>"]
    return "\n".join(lines) + "\n"


def _inline(value: object) -> str:
    text = re.sub(r"[\x00-\x20\x7f]+", " ", str(value)).replace("`", "'").replace("|", "\\|")
    return f"`{text}`"


def _fenced(text: str, language: str = "") -> str:
    """A block that nothing in the text can end."""
    fence = "`" * max(3, *(len(found) + 1 for found in re.findall("`+", text)), 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def outputs(code: int, told: Mapping[str, Any] | None, out: Path) -> dict[str, str]:
    """What later steps may use."""
    run = told["run"] if told else {"id": "", "status": ""}
    patch = out / "patch.diff"
    return {
        "run": run["id"], "status": run["status"], "exit-code": str(code), "out": str(out), "junit": str(out / "junit.xml"),
        "patch": str(patch) if patch.is_file() else "",
    }  # fmt: skip


def append(path: str | None, text: str) -> None:
    """Add text to a file of the platform's, if it has one."""
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)


def main(environ: Mapping[str, str]) -> int:
    """Do all of it; the exit code of the run."""
    out = Path(environ.get("RUN_OUT") or OUT).absolute()
    try:
        words = command(environ, out)
        out.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as exc:
        print(f"task: {exc}", file=sys.stderr)
        return 2
    with no_commands(environ):
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL)
    told = json.loads(done.stdout) if done.stdout.strip() else None
    patch = out / "patch.diff"
    text = summary(done.returncode, told, patch.read_text(errors="replace") if patch.is_file() else "")
    (out / "run.json").write_text(done.stdout)
    (out / "summary.md").write_text(text)
    append(environ.get("GITHUB_STEP_SUMMARY"), text)
    lines = (f"{name}={value}\n" for name, value in outputs(done.returncode, told, out).items())
    append(environ.get("GITHUB_OUTPUT"), "".join(lines))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(os.environ))
