"""For receivers of webhooks: telling what is genuine."""

from __future__ import annotations

from orchestrator.signature import TOLERANCE, BadSignature, verify

__all__ = ["TOLERANCE", "BadSignature", "verify"]
