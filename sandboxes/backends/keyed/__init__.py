"""Backends whose files are entries under keys: the protocol, written once over a few methods."""
