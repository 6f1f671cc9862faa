"""Sandboxes on this machine, by bubblewrap: no root, no daemon, no account."""

from sandboxes.providers.local.provider import LocalProvider

__all__ = ["LocalProvider"]
