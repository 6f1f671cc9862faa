"""Keys of the tenant."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from orchestrator.api.auth import Administers
from orchestrator.runs.keys import ApiKey
from orchestrator.service.keys import MAX_EXPIRY, MAX_NAME, Scope
from sandboxes.providers.base import Strict

router = APIRouter(tags=["keys"])

KeyId = Annotated[str, Path(pattern=r"^key-[0-9a-f]{12}$")]


class KeyBody(Strict):
    """A key to be made."""

    name: str = Field(min_length=1, max_length=MAX_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")
    scopes: tuple[Scope, ...] = Field(min_length=1, max_length=10)
    expires_in: float | None = Field(None, gt=0, le=MAX_EXPIRY, strict=True)
    """Seconds; without it the key lives until it is revoked."""


class KeyModel(BaseModel):
    """A key, without what makes it one."""

    id: str
    tenant: str
    name: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None
    """When it was last used, to about a minute."""

    @classmethod
    def of(cls, key: ApiKey) -> KeyModel:
        """From the record's."""
        return cls(**{**vars(key), "scopes": list(key.scopes)})


class NewKeyModel(KeyModel):
    """A key that was just made."""

    key: str
    """The key itself. It is shown only now."""


class KeyList(BaseModel):
    """The tenant's keys, the newest first."""

    items: list[KeyModel]


@router.post("/keys", status_code=HTTPStatus.CREATED)
def create_key(caller: Administers, body: KeyBody) -> NewKeyModel:
    """Make a key of this tenant."""
    made = caller.service.keys.create(body.name, body.scopes, expires_in=body.expires_in)
    return NewKeyModel(**KeyModel.of(made.key).model_dump(), key=made.text)


@router.get("/keys")
def list_keys(caller: Administers) -> KeyList:
    """The tenant's keys, the newest first; those that are over too."""
    return KeyList(items=[KeyModel.of(key) for key in caller.service.keys.list()])


@router.delete("/keys/{key_id}", response_model=KeyModel)
def revoke_key(caller: Administers, key_id: KeyId) -> KeyModel:
    """Revoke a key: it opens nothing from now on."""
    return KeyModel.of(caller.service.keys.revoke(key_id))
