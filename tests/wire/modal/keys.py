"""Who may ask: the account's key, session tokens, and a token for each task's commands."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Mapping
from typing import Final

from grpclib import GRPCError, Status

LIFE: Final = 1200
"""Seconds that a token is good for."""


class Keys:
    """Of one server. `life` may be shortened; `expire` ends all tokens that were given out."""

    def __init__(self) -> None:
        self.token_id = f"ak-{secrets.token_hex(8)}"
        self.token_secret = f"as-{secrets.token_hex(8)}"
        self.life = LIFE
        self._sessions: dict[str, float] = {}
        self._tasks: dict[str, tuple[str, float]] = {}

    def session(self) -> str:
        """A token for calls of sandboxes."""
        token, end = self._token("session")
        self._sessions[token] = end
        return token

    def for_task(self, task_id: str) -> str:
        """A token for a task's command router."""
        token, end = self._token(task_id)
        self._tasks[token] = task_id, end
        return token

    def _token(self, subject: str) -> tuple[str, float]:
        end = time.time() + self.life
        claims = {"sub": subject, "exp": int(end), "jti": secrets.token_hex(8)}
        parts = [json.dumps({"alg": "none"}), json.dumps(claims), "not signed"]
        return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts), end

    def expire(self) -> None:
        """End every token at once; the account's key stays good."""
        self._sessions.clear()
        self._tasks.clear()

    def check_account(self, metadata: Mapping[str, str | bytes]) -> None:
        """Raise UNAUTHENTICATED."""
        given = metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret")
        if given != (self.token_id, self.token_secret):
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID is malformed or unknown")

    def check_session(self, metadata: Mapping[str, str | bytes]) -> None:
        """Raise UNAUTHENTICATED."""
        if self._sessions.get(str(metadata.get("x-modal-auth-token")), 0) < time.time():
            raise GRPCError(Status.UNAUTHENTICATED, "the auth token is missing, unknown or expired")

    def task_of(self, metadata: Mapping[str, str | bytes]) -> str:
        """The task that a bearer may give commands to. Raises UNAUTHENTICATED."""
        task_id, end = self._tasks.get(str(metadata.get("authorization")).removeprefix("Bearer "), ("", 0.0))
        if end < time.time():
            raise GRPCError(Status.UNAUTHENTICATED, "the bearer token is missing, unknown or expired")
        return task_id
