"""Uploads and downloads for backends that have none: through `write`, `edit` and `read` of the protocol's first version."""

from __future__ import annotations

from typing import Any, Final

from sandboxes import protocol as p
from sandboxes.backends.first import numbered
from sandboxes.backends.layered.steps import Call, Steps
from sandboxes.toolbox.helper import text

WHOLE: Final = 10_000_000
"""Lines that are asked for when a file is read whole."""


def download(inner: Any, path: str) -> Steps[p.FileDownloadResponse]:
    """The text of a file as bytes. Numbered lines do not tell whether the last one has an end: here it has none."""
    try:
        at = text.absolute(path, "/")
        (answer,) = yield [Call(inner, "read", (at,), {"offset": 0, "limit": WHOLE})]
    except text.Refused as exc:
        return p.FileDownloadResponse(path, error=exc.code)
    except (ValueError, OSError) as exc:
        return p.FileDownloadResponse(path, error=f"Error: {exc}")
    if not isinstance(answer, str):
        return _of_result(path, answer)
    if (wrong := numbered.failure(answer, 0)) is not None:
        return p.FileDownloadResponse(path, error=p.FILE_NOT_FOUND if wrong.endswith("not found") else wrong)
    return p.FileDownloadResponse(path, "\n".join(numbered.lines_of(answer, 0)).encode("utf-8", "surrogateescape"))


def _of_result(path: str, result: p.ReadResult) -> p.FileDownloadResponse:
    if result.error is not None:
        return p.FileDownloadResponse(path, error=result.error)
    if result.next_offset is not None or getattr(result, "next_byte", None) is not None:
        return p.FileDownloadResponse(path, error=f"Error: '{path}' is too large to be read whole")
    content = result.content or ""
    return p.FileDownloadResponse(path, content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))


def upload(inner: Any, path: str, content: bytes) -> Steps[p.FileUploadResponse]:
    """Write a file of text; one that is there already is edited from its whole text to the new one."""
    try:
        wanted, at = content.decode("utf-8"), text.absolute(path, "/")
        (written,) = yield [Call(inner, "write", (at, wanted))]
        error = written.error
        if error is not None and (current := (yield from download(inner, at))).content is not None:
            error = yield from _replaced(inner, at, current.content.decode("utf-8", "surrogateescape"), wanted)
    except UnicodeDecodeError:
        words = f"Error: {type(inner).__name__} keeps text only, and '{path}' is not UTF-8 text"
        return p.FileUploadResponse(path, error=words)
    except text.Refused as exc:
        return p.FileUploadResponse(path, error=exc.code)
    except (ValueError, OSError) as exc:
        error = f"Error: {exc}"
    return p.FileUploadResponse(path, error=error)


def _replaced(inner: Any, path: str, current: str, wanted: str) -> Steps[str | None]:
    if current == wanted:
        return None
    if not current:
        return f"Error: '{path}' exists and is empty: {type(inner).__name__} cannot put text into it"
    (edited,) = yield [Call(inner, "edit", (path, current, wanted))]
    error: str | None = edited.error
    return error
