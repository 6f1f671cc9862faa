"""Which part of a content a `Range` header means."""

from __future__ import annotations

import pytest

from orchestrator.api.problems import Refused
from orchestrator.api.ranges import wanted_range


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("bytes=0-0", (0, 1)), ("bytes=0-", (0, 10)), ("bytes=3-5", (3, 6)), ("bytes=3-99", (3, 10)), ("bytes=9-9", (9, 10)),
        ("bytes=-1", (9, 10)), ("bytes=-99", (0, 10)), (" bytes=1-2 ", (1, 3)),
    ],
)  # fmt: skip
def test_a_part(header: str, part: tuple[int, int]) -> None:
    assert wanted_range(header, 10) == part


@pytest.mark.parametrize(
    "header", [None, "", "bytes=", "bytes=-", "bytes=5-3", "bytes=0-1,3-4", "lines=0-1", "bytes=a-b", "bytes=1", "bytes=٣-"]
)
def test_what_is_not_understood_is_everything(header: str | None) -> None:
    assert wanted_range(header, 10) is None


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=10-", 10), ("bytes=99-100", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-5", 0)]
)
def test_a_part_that_is_not_there(header: str, size: int) -> None:
    with pytest.raises(Refused) as refused:
        wanted_range(header, size)
    assert (refused.value.status_code, refused.value.headers) == (416, {"Content-Range": f"bytes */{size}"})
