"""Versions and ranges of versions, as Semantic Versioning 2.0.0 defines them."""

from semver.ranges import Range
from semver.version import Version

__all__ = ["Range", "Version"]
