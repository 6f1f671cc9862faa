"""`fanfold migrate`: the schema of the record, before anything else needs it."""

from __future__ import annotations

import sys


def migrate() -> int:
    """Make the record's schema, or bring it up to date, and say which it is.

    Whoever opens the record does so too. This is for an upgrade that is to wait for it, and to see it fail.
    """
    from orchestrator.runs.schema import HEAD, open_database
    from orchestrator.settings import load_settings

    settings = load_settings()
    engine = open_database(settings.database, settings.home / "database.lock")
    shown = engine.url.render_as_string(hide_password=True)
    engine.dispose()
    sys.stdout.write(f"{shown} is at revision {HEAD}\n")
    return 0
