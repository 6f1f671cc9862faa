"""Files for runs to come."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from orchestrator.api.auth import Writes
from orchestrator.api.problems import Refused
from orchestrator.service.uploads import TooLarge

router = APIRouter(tags=["uploads"])

_BODY = {
    "requestBody": {
        "required": True,
        "description": "The file's bytes.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary", "minLength": 1}}},
    }
}


class UploadModel(BaseModel):
    """A file that was sent. It can be used for a day."""

    id: str
    size: int
    sha256: str
    created_at: datetime


@router.post("/uploads", status_code=HTTPStatus.CREATED, openapi_extra=_BODY)
async def upload(caller: Writes, request: Request) -> UploadModel:
    """Send a file: an archive of inputs, or the script or cassette of a model."""
    room = caller.service.uploads
    limit = caller.service.settings.max_upload
    told = request.headers.get("content-length", "")
    try:
        if told.isdecimal() and int(told) > limit:
            raise TooLarge(f"the upload is larger than {limit:,} bytes (FANFOLD_MAX_UPLOAD)")
        kept = await room.keep(request.stream())
    except TooLarge as exc:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(exc), {"Connection": "close"}) from exc
    except ClientDisconnect as exc:
        raise Refused(HTTPStatus.BAD_REQUEST, "the upload broke off") from exc
    return UploadModel(id=kept.id, size=kept.size, sha256=kept.sha256, created_at=kept.created_at)
