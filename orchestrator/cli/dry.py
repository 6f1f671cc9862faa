"""`fanfold run --dry-run`: everything that submitting checks, and nothing of what it does."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.shapes import write_json
from orchestrator.freeze import find_secrets, freeze_files
from orchestrator.policy import load_policy
from orchestrator.runs.files import RunFolder
from orchestrator.settings import load_settings

if TYPE_CHECKING:
    from orchestrator.cli.door import Order


def dry_run(order: Order, *, as_json: bool) -> int:
    """Freeze the run into a folder that is thrown away, and print its task with every default filled in."""
    settings = load_settings(make_home=False)
    if order.spec.fan_out is not None:
        load_policy(settings.policy).fan_out.check(len(order.spec.fan_out.children()))
    granted = settings.allowed_secrets | frozenset(order.granted)
    with tempfile.TemporaryDirectory(prefix="fanfold-dry-run-") as scratch:
        folder = RunFolder(Path(scratch) / "run")
        folder.create()
        find_secrets(order.spec, granted, os.environ)
        freeze_files(order.spec, folder, base_dir=order.base_dir, named=frozenset(order.named))
    # Behind an API it is the API's to say.
    spec = order.spec if settings.url else order.spec.with_default_provider(settings.provider)
    resolved = spec.model_dump(mode="json", exclude_none=True)
    if as_json:
        write_json(resolved)
    else:
        import yaml

        sys.stdout.write(yaml.safe_dump(resolved, sort_keys=False))
    return 0
