"""Where the SDK leaves the files of a build: as much of S3 as it uses, and the keys to it. Signatures are not looked at."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from tests.wire.daytona.api import authorized
from tests.wire.daytona.state import ORGANIZATION, Refused, World

BUCKET: Final = "daytona-volume-builds"
_STARTED: Final = "<InitiateMultipartUploadResult><UploadId>{}</UploadId></InitiateMultipartUploadResult>"
_COMPLETED: Final = "<CompleteMultipartUploadResult><ETag>&quot;{}&quot;</ETag></CompleteMultipartUploadResult>"


def routes(world: World, key: str) -> APIRouter:
    """The storage, and the route that tells who has this key how to reach it."""
    api, stored = APIRouter(), world.workshop.stored
    parts: dict[str, dict[int, bytes]] = {}

    @api.get("/api/object-storage/push-access", dependencies=[Depends(authorized(world.faults, key))])
    async def access() -> dict[str, str]:
        return {
            "accessKey": "wire", "secret": "wire", "sessionToken": "wire", "storageUrl": f"{world.url}/storage",
            "organizationId": ORGANIZATION, "bucket": BUCKET, "region": "us",
        }  # fmt: skip

    @api.head("/storage/{name:path}")
    async def head(name: str) -> Response:
        if name not in stored:
            return Response(status_code=404)
        return Response(headers={**_tag(stored[name]), "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}, content=stored[name])

    @api.put("/storage/{name:path}")
    async def put(name: str, request: Request) -> Response:
        data, query = await request.body(), request.query_params
        if "uploadId" in query:
            parts[query["uploadId"]][int(query["partNumber"])] = data
        else:
            stored[name] = data
        return Response(headers=_tag(data))

    @api.post("/storage/{name:path}")
    async def post(name: str, request: Request) -> Response:
        upload = request.query_params.get("uploadId")
        if upload is None:
            upload = secrets.token_hex(8)
            parts[upload] = {}
            return Response(_STARTED.format(upload), media_type="application/xml")
        if upload not in parts:
            raise Refused(404, "NoSuchUpload")
        stored[name] = b"".join(data for _, data in sorted(parts.pop(upload).items()))
        return Response(_COMPLETED.format(upload), media_type="application/xml")

    return api


def _tag(data: bytes) -> dict[str, Any]:
    return {"ETag": f'"{hashlib.md5(data).hexdigest()}"'}
