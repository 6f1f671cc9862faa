"""Writes the table of what each provider can do into docs/providers.md, from what their classes declare.

`python scripts/capabilities.py` writes; `--check` says when the table is stale, and ends with exit code 1.
"""

from __future__ import annotations

import sys
from dataclasses import fields

from written import ROOT, main

from sandboxes.providers.base import Capabilities, SandboxProvider
from sandboxes.providers.daytona import DaytonaProvider
from sandboxes.providers.docker import DockerProvider
from sandboxes.providers.local import LocalProvider
from sandboxes.providers.modal import ModalProvider

PAGE = ROOT / "docs" / "providers.md"
BEGIN, END = "<!-- capabilities: scripts/capabilities.py -->\n", "<!-- end of capabilities -->\n"
PROVIDERS: tuple[type[SandboxProvider], ...] = (LocalProvider, DockerProvider, ModalProvider, DaytonaProvider)
ASKED = {
    "networks": "`network`",
    "images": "`image`",
    "dockerfile": "`dockerfile`",
    "rootfs": "`rootfs`",
    "writable_system": "`system: overlay`",
    "user": "`user`",
    "cpu": "`resources.cpu`",
    "memory": "`resources.memory`, for",
    "pids": "`resources.pids`",
    "disk": "`resources.disk`",
    "whole": "limits in whole cores and GiB alone",
    "mounts": "`mounts`",
    "idle_timeout": "`idle_timeout`",
    "runtime": "`runtime`",
    "pause": "pause and resume",
    "fork_scopes": "forks carry",
    "native_fork": "forks share files as a layer",
    "fork_pauses": "the parent of a fork stands still",
}
"""What a row is called, by the field of `Capabilities`. Notes are sentences, and stand elsewhere on the page."""


def table() -> str:
    """The table as it should be."""
    lines = [f"| | {' | '.join(f'`{one.name}`' for one in PROVIDERS)} |", "|---|" + "---|" * len(PROVIDERS)]
    for name in (one.name for one in fields(Capabilities) if one.name != "notes"):
        lines.append(f"| {ASKED[name]} | {' | '.join(shown(getattr(one.declared, name)) for one in PROVIDERS)} |")
    return "\n".join(lines)


def shown(value: object) -> str:
    """A value, for people."""
    if isinstance(value, bool):
        return "yes" if value else "-"
    return ", ".join(sorted(value)) if isinstance(value, frozenset) else str(value)


def page() -> str:
    """The page with the table as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, {PAGE: page()}))
