"""Content is read as a file, a piece at a time."""

from __future__ import annotations

import hashlib
import io
import os
import random

import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.runs.content import PIECE, ContentReader

CONTENT = bytes(range(256)) * 40


class Fetched:
    """Ranges of content, and which were asked for."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.asked: list[tuple[int, int]] = []

    def __call__(self, start: int, end: int) -> bytes:
        self.asked.append((start, end))
        return self.content[start:end]


def opened(content: bytes, *, size: int | None = None, buffer: int = 1000) -> io.BufferedReader:
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    return io.BufferedReader(ContentReader(Fetched(content), len(CONTENT) if size is None else size, sha256=sha256), buffer)


def test_any_mix_of_reads_and_seeks_gives_what_a_file_gives() -> None:
    chance = random.Random(7)
    file, model = opened(CONTENT), io.BytesIO(CONTENT)
    for _ in range(300):
        offset, length = chance.randrange(len(CONTENT) + 50), chance.choice([0, 1, 7, 999, 1000, 5000, -1])
        assert file.seek(offset) == model.seek(offset)
        assert file.read(length) == model.read(length)
        assert file.tell() == model.tell()
    assert file.seek(-10, os.SEEK_END) == len(CONTENT) - 10
    assert file.read() == CONTENT[-10:]


def test_a_large_content_is_fetched_in_pieces() -> None:
    content = bytes(2 * PIECE + 5)
    fetch = Fetched(content)
    reader = ContentReader(fetch, len(content), sha256=None)
    assert len(reader.read()) == len(content)
    assert fetch.asked == [(0, PIECE), (PIECE, 2 * PIECE), (2 * PIECE, 2 * PIECE + 5)]


def test_lines_are_whole_over_the_borders_of_pieces() -> None:
    text = b"".join(b"line %d\n" % number for number in range(500))
    assert list(io.BufferedReader(ContentReader(Fetched(text), len(text), sha256=None), 64)) == text.splitlines(keepends=True)


def test_content_that_is_as_it_was_passes_the_check() -> None:
    assert opened(CONTENT).read() == CONTENT


def test_content_that_has_changed_is_told_when_its_end_is_read() -> None:
    file = opened(b"\0" + CONTENT[1:][:-1] + b"x")
    assert file.read(1000) == b"\0" + CONTENT[1:1000]
    with pytest.raises(InfrastructureError, match="has changed where it is stored"):
        file.read()


def test_content_that_is_shorter_than_it_was_is_told() -> None:
    with pytest.raises(InfrastructureError, match=r"ends after 10000 of 10240 bytes"):
        opened(CONTENT[:10_000]).read()


def test_content_of_nothing_is_checked_too() -> None:
    with pytest.raises(InfrastructureError, match="has changed"):
        opened(b"", size=0).read()
