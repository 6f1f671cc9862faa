"""Checks of `ls` and `read`."""

from __future__ import annotations

import base64
from datetime import datetime

import pytest

from sandboxes.protocol import DEFAULT_READ_LIMIT
from sandboxes.sandbox import Sandbox
from sandboxes.testing.conformance.base import Checks, ok, put

LONG_LINE = 5_000_000
"""Bytes of a line that no single answer can hold."""
ANSWER_CAP = 2_000_000
"""Bytes that one `read` may return of a text."""

TEXTS = {
    "newline-at-end": "one\ntwo\nthree\nfour\nfive\n",
    "no-newline-at-end": "one\ntwo\nthree\nfour\nfive",
    "crlf": "one\r\ntwo\r\nthree\r\nfour\r\n",
    "mixed-endings": "one\ntwo\r\nthree\rstill three\nfour",
    "blank-lines": "\n\n\none\n\n\n",
    "unicode": "größe\n日本語\n🎉 party\n\u2028not a line end\n",
    "byte-order-mark": "\ufefffirst\nsecond\n",
    "form-feed-and-tab": "a\x0cb\n\tc\x0b\n\x1b[31mred\n",
}

BINARIES = {
    "every-byte": bytes(range(256)) * 8,
    "nul-in-text": b"text\0text\n",
    "latin-1": "caf\xe9 cr\xe8me\n".encode("latin-1"),
    "utf-16": "wide".encode("utf-16"),
    "late-bad-byte": b"fine\n" * 5000 + b"\xff\xfe\n",
}


class ReadingChecks(Checks):
    """What a model sees of folders and files."""

    async def test_ls_lists_files_and_folders_sorted_by_path(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir b.d && printf 12345 > c && : > a && : > .hidden && : > b.d/inner")
        result = await sandbox.als(place)
        assert result.error is None
        assert result.entries is not None
        assert [entry["path"] for entry in result.entries] == [f"{place}/{name}" for name in (".hidden", "a", "b.d/", "c")]
        assert [entry.get("is_dir") for entry in result.entries] == [False, False, True, False]
        assert result.entries[3].get("size") == 5

    async def test_ls_tells_when_an_entry_was_modified_in_utc(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"TZ=UTC touch -t 202001020304.05 {place}/old")
        [entry] = (await sandbox.als(place)).entries or []
        stamp = datetime.fromisoformat(entry["modified_at"])
        assert stamp.isoformat() == "2020-01-02T03:04:05+00:00"

    async def test_ls_of_an_empty_folder_is_an_empty_success(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.als(place)
        assert (result.error, result.entries) == (None, [])

    @pytest.mark.parametrize("what", ["missing", "a-file", "missing/below"])
    async def test_ls_of_what_is_no_folder_is_an_error(self, sandbox: Sandbox, place: str, what: str) -> None:
        await put(sandbox, f"{place}/a-file", "x")
        result = await sandbox.als(f"{place}/{what}")
        assert result.error is not None
        assert f"{place}/{what}" in result.error
        assert result.entries is None

    async def test_ls_takes_a_relative_path_and_answers_with_absolute_ones(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/a", "x")
        result = await sandbox.als(place.removeprefix(sandbox.workdir + "/"))
        assert [entry["path"] for entry in result.entries or []] == [f"{place}/a"]

    async def test_ls_shows_a_dangling_link(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"ln -s nowhere {place}/link")
        result = await sandbox.als(place)
        assert [entry["path"] for entry in result.entries or []] == [f"{place}/link"]

    async def test_ls_of_ten_thousand_entries_is_whole(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && seq 10000 | xargs touch")
        result = await sandbox.als(place)
        assert len(result.entries or []) == 10_000

    @pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
    async def test_read_returns_a_text_exactly(self, sandbox: Sandbox, place: str, text: str) -> None:
        path = await put(sandbox, f"{place}/text", text)
        result = await sandbox.aread(path)
        assert result.error is None
        assert result.file_data is not None
        assert (result.file_data["content"], result.file_data["encoding"]) == (text, "utf-8")
        lines = text.count("\n") + (not text.endswith("\n"))
        assert (result.start_line, result.end_line, result.total_lines, result.next_offset) == (1, lines, lines, None)

    @pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
    async def test_read_by_pages_loses_and_repeats_nothing(self, sandbox: Sandbox, place: str, text: str) -> None:
        path = await put(sandbox, f"{place}/text", text)
        pages = ""
        offset: int | None = 0
        while offset is not None:
            result = await sandbox.aread(path, offset=offset, limit=2)
            assert result.error is None
            assert result.file_data is not None
            assert result.start_line == offset + 1
            pages += result.file_data["content"]
            offset = result.next_offset
        assert pages == text

    async def test_read_returns_the_lines_that_were_asked_for(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/ten", "".join(f"line {n}\n" for n in range(1, 11)))
        result = await sandbox.aread(path, offset=2, limit=3)
        assert result.file_data is not None
        assert result.file_data["content"] == "line 3\nline 4\nline 5\n"
        assert (result.start_line, result.end_line, result.total_lines, result.next_offset) == (3, 5, 10, 5)

    async def test_read_returns_two_thousand_lines_by_default(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/many", "x\n" * 5000)
        result = await sandbox.aread(path)
        assert (result.end_line, result.next_offset, result.total_lines) == (DEFAULT_READ_LIMIT, DEFAULT_READ_LIMIT, 5000)

    async def test_read_of_an_empty_file_is_an_empty_success(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.aread(await put(sandbox, f"{place}/empty", ""))
        assert result.error is None
        assert result.file_data is not None
        assert result.file_data["content"] == ""
        assert (result.start_line, result.next_offset) == (None, None)

    async def test_read_of_no_lines_says_so(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.aread(await put(sandbox, f"{place}/text", "a\nb\n"), limit=0)
        assert result.error is None
        assert result.no_lines_requested

    async def test_read_past_the_end_says_how_long_the_file_is(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.aread(await put(sandbox, f"{place}/text", "a\nb\nc\n"), offset=7)
        assert result.error is not None
        assert "3 lines" in result.error

    async def test_read_from_a_negative_offset_is_an_error(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.aread(await put(sandbox, f"{place}/text", "a\n"), offset=-1)
        assert result.error is not None
        assert result.file_data is None

    async def test_read_of_a_missing_file_says_so_in_the_protocols_words(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.aread(f"{place}/missing")
        assert result.error == f"Error: File '{place}/missing' not found"
        assert result.file_data is None

    async def test_read_of_a_folder_says_that_it_is_one(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.aread(place)
        assert result.error is not None
        assert "directory" in result.error

    async def test_read_of_a_pipe_is_an_error_and_does_not_block(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"mkfifo {place}/pipe")
        result = await sandbox.aread(f"{place}/pipe")
        assert result.error is not None

    async def test_read_of_an_unreadable_file_says_that_permission_is_missing(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/closed", "secret")
        await ok(sandbox, f"chmod 000 {path}")
        result = await sandbox.aread(path)
        assert result.error is not None
        assert "permission" in result.error.lower()

    async def test_read_follows_a_link(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && printf hello > real && ln -s real link")
        result = await sandbox.aread(f"{place}/link")
        assert result.file_data is not None
        assert result.file_data["content"] == "hello"

    async def test_read_takes_a_relative_path(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/a", "x")
        result = await sandbox.aread(place.removeprefix(sandbox.workdir + "/") + "/a")
        assert result.file_data is not None
        assert result.file_data["content"] == "x"

    @pytest.mark.parametrize("data", BINARIES.values(), ids=BINARIES)
    async def test_read_returns_what_is_no_text_as_base64(self, sandbox: Sandbox, place: str, data: bytes) -> None:
        result = await sandbox.aread(await put(sandbox, f"{place}/binary", data), limit=1_000_000)
        assert result.error is None
        assert result.file_data is not None
        assert result.file_data["encoding"] == "base64"
        assert base64.b64decode(result.file_data["content"]) == data

    async def test_media_are_never_read_as_text(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.aread(await put(sandbox, f"{place}/drawing.SVG", b"<svg/>\n"))
        assert (result.content, result.mime_type) == (b"<svg/>\n", "image/svg+xml")
        text = await sandbox.aread(await put(sandbox, f"{place}/notes.md", b"# Notes\n"))
        assert (text.content, text.mime_type) == ("# Notes\n", "text/markdown")

    async def test_a_file_can_be_read_raw(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.aread_raw(await put(sandbox, f"{place}/a", b"one\n\ntwo"))
        assert result.data is not None
        assert (result.data["content"], result.data["encoding"]) == ("one\n\ntwo", "utf-8")
        assert (await sandbox.aread_raw(f"{place}/missing")).error == f"Error: File '{place}/missing' not found"

    async def test_read_of_a_huge_binary_is_refused_rather_than_sent(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"head -c 100000000 /dev/zero > {place}/huge")
        result = await sandbox.aread(f"{place}/huge")
        assert result.error is not None
        assert "100000000" in result.error
        await ok(sandbox, f"rm {place}/huge")

    async def test_read_of_a_huge_text_comes_in_bounded_pages(self, sandbox: Sandbox, place: str) -> None:
        line = "x" * 999 + "\n"
        path = await put(sandbox, f"{place}/huge", line * 4000)
        result = await sandbox.aread(path, limit=4000)
        assert result.file_data is not None
        assert len(result.file_data["content"]) <= ANSWER_CAP
        assert result.next_offset is not None
        rest = await sandbox.aread(path, offset=result.next_offset, limit=1)
        assert rest.file_data is not None
        assert rest.file_data["content"] == line

    @pytest.mark.parametrize("character", ["x", "é", "日", "🎉"])
    async def test_the_tail_of_one_endless_line_is_reached_by_bytes(
        self, sandbox: Sandbox, place: str, character: str
    ) -> None:
        text = character * (LONG_LINE // len(character.encode())) + "THE END\n"
        path = await put(sandbox, f"{place}/line", text)
        result = await sandbox.aread(path)
        pieces = []
        while True:
            assert result.error is None
            assert result.file_data is not None
            assert len(result.file_data["content"].encode()) <= ANSWER_CAP
            pieces.append(result.file_data["content"])
            if result.next_byte is None:
                break
            result = await sandbox.aread(path, byte_offset=result.next_byte)
        assert "".join(pieces) == text

    async def test_read_can_begin_at_any_byte(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/line", "0123456789" * 300_000)
        result = await sandbox.aread(path, byte_offset=2_999_995)
        assert result.file_data is not None
        assert result.file_data["content"] == "56789"
        past = await sandbox.aread(path, byte_offset=3_000_001)
        assert past.error is not None
