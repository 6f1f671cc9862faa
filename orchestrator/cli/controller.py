"""`fanfold controller`: keeps an installation whole."""

from __future__ import annotations


def controller() -> int:
    """Call a worker for every run that lost its own, and end sandboxes that lost their run, until told to stop.

    Each worker does so too; a controller is for installations whose workers come and go, or are all busy.
    """
    from orchestrator.controller.process import run_controller
    from orchestrator.service import Service
    from orchestrator.service.schedules import submitter
    from orchestrator.settings import load_settings
    from orchestrator.telemetry.process import observed

    settings = load_settings()
    with observed(settings, "controller") as telemetry, Service(settings) as service:
        run_controller(settings, telemetry, submitter(service))
    return 0
