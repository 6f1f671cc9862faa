"""`fanfold api`: serves the HTTP API."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_PORT = 8000

Host = Annotated[str, typer.Option("--host", metavar="HOST", help="The address to listen on; 0.0.0.0 is every one.")]
Port = Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="The port to listen on; 0 is any that is free.")]


def api(host: Host = "127.0.0.1", port: Port = DEFAULT_PORT) -> int:
    """Serve the API until told to stop. Its keys are made with `fanfold keys create`.

    It only takes orders: runs are executed by workers (`fanfold worker`), here or elsewhere on the same record and broker.
    """
    from orchestrator.api.server import serve
    from orchestrator.service import Service
    from orchestrator.settings import load_settings
    from orchestrator.telemetry.process import observed

    settings = load_settings()
    with observed(settings, "api"), Service(settings) as service:
        serve(service, host=host, port=port)
    return 0
