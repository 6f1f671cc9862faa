"""`fanfold doctor`: what is available here, what is missing, and how to get it."""

from __future__ import annotations

import sys

from orchestrator.cli.options import Output, OutputOption


def doctor(output: OutputOption = Output.text) -> int:
    """Tell what works here, and how to get the rest.

    Exit code 0 when a run with the default provider works here, 3 when not. With FANFOLD_URL set: whether that API answers, and
    as whom.
    """
    from orchestrator.cli.checks import all_checks, as_text
    from orchestrator.cli.shapes import write_json
    from orchestrator.errors import InfrastructureError

    checks = all_checks()
    healthy = all(check.state != "missing" for check in checks if check.needed)
    if output is Output.json:
        write_json({"healthy": healthy, "checks": [check.to_json() for check in checks]})
    else:
        sys.stdout.write(as_text(checks, healthy=healthy, colours=sys.stdout.isatty()))
    return 0 if healthy else InfrastructureError.exit_code
