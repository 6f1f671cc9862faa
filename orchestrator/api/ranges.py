"""Content as an answer: whole, or the part that a `Range` header asks for (RFC 9110)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import BinaryIO
from urllib.parse import quote

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from orchestrator.api.problems import Refused
from orchestrator.runs.models import Artifact

PIECE = 1024**2
"""Bytes that are read and sent at once."""
_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")


def wanted_range(header: str | None, size: int) -> tuple[int, int] | None:
    """`(start, end)` of the bytes that are asked for, `end` not included; None for all of them.

    A header that is not understood, or that asks for several parts, is ignored. Raises `Refused` (416) when there is no such
    part.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if not match or not (match[1] or match[2]):
        return None
    if not match[1]:  # the last so many bytes
        start, end = max(0, size - int(match[2])), size
    else:
        start, end = int(match[1]), min(size, int(match[2]) + 1) if match[2] else size
        if match[2] and int(match[2]) < start:
            return None
    if start >= end:
        raise Refused(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, f"there are {size} bytes", {"Content-Range": f"bytes */{size}"}
        )
    return start, end


def not_modified(request: Request, artifact: Artifact) -> Response | None:
    """The answer to a client that has the content already; None when it has not."""
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if etag(artifact) in known or known == ["*"]:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": etag(artifact)})
    return None


def head(artifact: Artifact) -> Response:
    """What a download would begin with."""
    headers = {**_headers(artifact), "Content-Length": str(artifact.size)}
    return Response(headers=headers, media_type="application/octet-stream")


def content(request: Request, artifact: Artifact, file: BinaryIO) -> Response:
    """The content of an artifact, of which `file` is closed when it was sent. Raises `Refused` for a part that is not there."""
    try:
        header = request.headers.get("range")
        if (condition := request.headers.get("if-range")) and condition.strip() != etag(artifact):
            header = None
        part = wanted_range(header, artifact.size)
        start, end = part or (0, artifact.size)
        if start:
            file.seek(start)
    except BaseException:
        file.close()
        raise
    headers = {**_headers(artifact), "Content-Length": str(end - start)}
    if part:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{artifact.size}"
    return StreamingResponse(
        _pieces(file, end - start),
        HTTPStatus.PARTIAL_CONTENT if part else HTTPStatus.OK,
        headers,
        media_type="application/octet-stream",
        background=BackgroundTask(file.close),
    )


def etag(artifact: Artifact) -> str:
    """The content's name."""
    return f'"{artifact.sha256}"'


def _headers(artifact: Artifact) -> dict[str, str]:
    name = artifact.name.rpartition("/")[2]
    return {
        "ETag": etag(artifact),
        "Accept-Ranges": "bytes",
        # A sandbox chose the name and the content: no browser is to show them as a page of ours.
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='', errors='replace')}",
        "X-Content-Type-Options": "nosniff",
    }


def _pieces(file: BinaryIO, left: int) -> Iterator[bytes]:
    with file:
        while left and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            yield piece
