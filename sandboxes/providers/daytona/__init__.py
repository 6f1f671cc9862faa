"""Sandboxes of Daytona, through its own SDK (`fanfold[daytona]`)."""

from sandboxes.providers.daytona.provider import DaytonaProvider

__all__ = ["DaytonaProvider"]
