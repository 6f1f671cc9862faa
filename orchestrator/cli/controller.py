"""`fanfold controller`: keeps an installation whole."""

from __future__ import annotations


def controller() -> int:
    """Call a worker for every run that lost its own, and end sandboxes that lost their run, until told to stop.

    Each worker does so too; a controller is for installations whose workers come and go, or are all busy.
    """
    import logging

    from orchestrator.controller.process import run_controller
    from orchestrator.settings import load_settings

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    run_controller(load_settings())
    return 0
