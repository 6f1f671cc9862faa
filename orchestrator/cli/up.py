"""`fanfold up`: becomes a process that is all of Fanfold."""

from __future__ import annotations

import os
import sys

from orchestrator.cli.api import DEFAULT_PORT, Host, Port
from orchestrator.cli.worker import Concurrency


def up(host: Host = "127.0.0.1", port: Port = DEFAULT_PORT, concurrency: Concurrency = None) -> int:
    """Serve the API and execute its runs, in one process, until told to stop.

    The first time it makes a key and says where that is. For the command line of another shell:
    FANFOLD_URL=http://127.0.0.1:8000 FANFOLD_API_KEY=$(cat ~/.local/state/fanfold/api.key) fanfold run TASK
    """
    # -P: a file in the current folder must not be imported in place of a library.
    arguments = [sys.executable, "-P", "-m", "orchestrator.up", "--host", host, "--port", str(port)]
    if concurrency is not None:
        arguments += ["--concurrency", str(concurrency)]
    sys.stdout.flush()
    os.execv(arguments[0], arguments)
