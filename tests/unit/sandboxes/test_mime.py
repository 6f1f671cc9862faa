from __future__ import annotations

import pytest

from sandboxes.mime import medium, mime_type
from sandboxes.protocol import encoded


@pytest.mark.parametrize(
    ("path", "kind", "of"),
    [
        ("/a.png", "image/png", "image"),
        ("/a.JPG", "image/jpeg", "image"),
        ("/a.heif", "image/heif", "image"),
        ("/a.svg", "image/svg+xml", "image"),
        ("/a.aiff", "audio/aiff", "audio"),
        ("/a.3gpp", "video/3gpp", "video"),
        ("/a.mpg", "video/mpeg", "video"),
        ("/a.pdf", "application/pdf", "document"),
        ("/a.ppt", "application/vnd.ms-powerpoint", "document"),
        ("/a.py", "text/x-python", None),
        ("/a.txt", "text/plain", None),
        ("/a.html", "text/html", None),
        ("/a.json", "application/json", None),
        ("/a.ts", "text/typescript", None),
        ("/noextension", "text/plain", None),
        ("/dir.png/file", "text/plain", None),
    ],
)
def test_the_type_of_a_file_is_that_of_its_extension(path: str, kind: str, of: str | None) -> None:
    assert mime_type(path) == kind
    assert medium(path) == of


def test_what_is_not_text_is_never_called_text() -> None:
    assert mime_type("/a.txt", binary=True) == "application/octet-stream"
    assert mime_type("/unknown", binary=True) == "application/octet-stream"


def test_content_is_encoded_by_its_name_and_its_bytes() -> None:
    assert encoded("/a.txt", b"caf\xc3\xa9") == {"content": "café", "encoding": "utf-8", "mime_type": "text/plain"}
    assert encoded("/a.txt", b"caf\xe9")["encoding"] == "base64"
    assert encoded("/a.svg", b"<svg/>") == {"content": "PHN2Zy8+", "encoding": "base64", "mime_type": "image/svg+xml"}
