"""Who asks: the key of a request, what it opens, and how often its tenant may ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from orchestrator.api.limits import RateLimits
from orchestrator.api.problems import Refused
from orchestrator.service import Service
from orchestrator.service.keys import Scope
from orchestrator.settings import DEFAULT_TENANT

_BEARER = HTTPBearer(auto_error=False, scheme_name="key", description="A key of the API: `ffk_...` (`fanfold keys create`).")
_Given = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="fanfold"'}


@dataclass(frozen=True)
class Caller:
    """Whose request this is."""

    key_id: str
    tenant: str
    scopes: frozenset[str]
    service: Service
    """The door of that tenant."""

    def may(self, scope: Scope) -> bool:
        """Whether the key opens this."""
        return scope in self.scopes or "admin" in self.scopes

    @property
    def operates(self) -> bool:
        """Whether the key is that of the installation's operator: it sees all tenants."""
        return self.tenant == DEFAULT_TENANT and self.may("admin")


def caller(request: Request, given: _Given) -> Caller:
    """Whose request this is. Answers 401 without a key that opens anything, and 429 when the tenant asks too often."""
    service: Service = request.app.state.service
    limits: RateLimits = request.app.state.limits
    if given is None:
        raise Refused(HTTPStatus.UNAUTHORIZED, "this needs a key: send `Authorization: Bearer ffk_...`", _CHALLENGE)
    known = service.keys.owner(given.credentials)
    if known is None:
        raise Refused(HTTPStatus.UNAUTHORIZED, "the key is not known, has expired or was revoked", _CHALLENGE)
    limits.take(known.tenant.id, known.tenant.limits.max_requests)
    found = Caller(known.key.id, known.tenant.id, frozenset(known.key.scopes), service.of(known.tenant.id))
    request.state.caller = found
    return found


_Anybody = Annotated[Caller, Depends(caller)]


def needs(scope: Scope) -> Callable[[Caller], Awaitable[Caller]]:
    """A dependency: the caller, whose key has this scope. Answers 403 when it has not."""

    async def check(who: _Anybody) -> Caller:
        if not who.may(scope):
            raise Refused(HTTPStatus.FORBIDDEN, f"this needs a key with the scope '{scope}'")
        return who

    return check


def _operator(who: _Anybody) -> Caller:
    if not who.operates:
        raise Refused(HTTPStatus.FORBIDDEN, f"this needs a key of the tenant '{DEFAULT_TENANT}' with the scope 'admin'")
    return who


def observer(request: Request, given: _Given) -> None:
    """A dependency: whoever may see all tenants' numbers. That is the operator, unless the operator says everybody."""
    service: Service = request.app.state.service
    if not service.settings.metrics_public:
        _operator(caller(request, given))


Reads = Annotated[Caller, Depends(needs("runs:read"))]
Writes = Annotated[Caller, Depends(needs("runs:write"))]
Executes = Annotated[Caller, Depends(needs("sandboxes:exec"))]
Administers = Annotated[Caller, Depends(needs("admin"))]
Operates = Annotated[Caller, Depends(_operator)]
"""The operator of the installation."""
