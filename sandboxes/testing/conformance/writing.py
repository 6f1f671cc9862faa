"""Checks of `write`, `edit` and `delete`."""

from __future__ import annotations

import asyncio

import pytest

from sandboxes.protocol import EditResult, WriteResult
from sandboxes.sandbox import Sandbox
from sandboxes.testing.conformance.base import Checks, exists, get, ok, put

CONTENTS = {
    "empty": "",
    "no-newline": "text",
    "crlf": "a\r\nb\r\n",
    "unicode": "größe 日本語 🎉\n",
    "shell": "$(touch /tmp/owned) `id` $HOME \"'\\n %s\n",
    "large": "0123456789abcdef" * 200_000,
}

REPLACEMENTS = {
    "plain": ("one two three", "two", "2", "one 2 three"),
    "several-lines": ("a\nb\nc\n", "a\nb\n", "x\n", "x\nc\n"),
    "crlf": ("a\r\nb\r\n", "a\r\n", "c\r\n", "c\r\nb\r\n"),
    "regex-characters": ("f(x) = [x*]", "(x) = [x*]", ".*", "f.*"),
    "replacement-escapes": ("a b", "a", r"\1 & $& \n", r"\1 & $& \n b"),
    "unicode": ("größe 🎉", "🎉", "ß", "größe ß"),
    "to-nothing": ("keep drop", " drop", "", "keep"),
    "shell": ("x $(id) y", "$(id)", "`id`", "x `id` y"),
    "whole-file": ("all", "all", "new", "new"),
}


class WritingChecks(Checks):
    """What changes files: each change whole or not at all."""

    @pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
    async def test_write_creates_a_file_with_exactly_this_content(self, sandbox: Sandbox, place: str, content: str) -> None:
        result = await sandbox.awrite(f"{place}/new", content)
        assert result == WriteResult(path=f"{place}/new")
        assert await get(sandbox, f"{place}/new") == content.encode()

    async def test_write_makes_the_folders_above(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.awrite(f"{place}/a/b/c/new", "x")
        assert result.error is None
        assert await get(sandbox, f"{place}/a/b/c/new") == b"x"

    async def test_write_takes_a_relative_path(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.awrite(place.removeprefix(sandbox.workdir + "/") + "/new", "x")
        assert result.error is None
        assert await get(sandbox, f"{place}/new") == b"x"

    async def test_write_leaves_an_existing_file_as_it_is(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/old", "old")
        result = await sandbox.awrite(path, "new")
        assert result.error is not None
        assert "exists" in result.error
        assert result.path is None
        assert await get(sandbox, path) == b"old"

    async def test_write_does_not_follow_a_dangling_link(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"ln -s {place}/target {place}/link")
        result = await sandbox.awrite(f"{place}/link", "x")
        assert result.error is not None
        assert not await exists(sandbox, f"{place}/target")

    @pytest.mark.parametrize("where", ["folder", "file/below", "closed/new"])
    async def test_write_where_no_file_can_be_is_an_error(self, sandbox: Sandbox, place: str, where: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir folder closed && : > file && chmod 555 closed")
        result = await sandbox.awrite(f"{place}/{where}", "x")
        assert result.error is not None
        assert result.path is None

    async def test_write_makes_an_ordinary_file_of_the_user_of_the_commands(self, sandbox: Sandbox, place: str) -> None:
        await sandbox.awrite(f"{place}/new", "x")
        assert await ok(sandbox, f"stat -c %a {place}/new && [ -O {place}/new ]") == "644\n"

    async def test_write_leaves_nothing_else_behind(self, sandbox: Sandbox, place: str) -> None:
        await sandbox.awrite(f"{place}/new", "x")
        await sandbox.awrite(f"{place}/new", "y")
        assert await ok(sandbox, f"ls -A {place}") == "new\n"

    async def test_of_many_writes_of_one_file_exactly_one_wins(self, sandbox: Sandbox, place: str) -> None:
        contents = [str(number) * 100_000 for number in range(8)]
        results = await asyncio.gather(*(sandbox.awrite(f"{place}/race", content) for content in contents))
        winners = [index for index, result in enumerate(results) if result.error is None]
        assert len(winners) == 1
        assert await get(sandbox, f"{place}/race") == contents[winners[0]].encode()

    @pytest.mark.parametrize(("before", "old", "new", "after"), REPLACEMENTS.values(), ids=REPLACEMENTS)
    async def test_edit_replaces_exactly_this_string(
        self, sandbox: Sandbox, place: str, before: str, old: str, new: str, after: str
    ) -> None:
        path = await put(sandbox, f"{place}/text", before)
        assert await sandbox.aedit(path, old, new) == EditResult(path=path, occurrences=1)
        assert await get(sandbox, path) == after.encode()

    async def test_edit_of_a_string_that_occurs_often_is_refused(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/text", "a b a b a")
        result = await sandbox.aedit(path, "a", "c")
        assert result.error is not None
        assert "3 times" in result.error
        assert await get(sandbox, path) == b"a b a b a"

    async def test_edit_replaces_all_when_told_so(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/text", "a b a b a")
        assert await sandbox.aedit(path, "a", "c", replace_all=True) == EditResult(path=path, occurrences=3)
        assert await get(sandbox, path) == b"c b c b c"

    @pytest.mark.parametrize("old", ["absent", ""])
    async def test_edit_without_anything_to_replace_is_an_error(self, sandbox: Sandbox, place: str, old: str) -> None:
        path = await put(sandbox, f"{place}/text", "content")
        result = await sandbox.aedit(path, old, "x")
        assert result.error is not None
        assert await get(sandbox, path) == b"content"

    async def test_edit_of_a_missing_file_says_so_in_the_protocols_words(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.aedit(f"{place}/missing", "a", "b")
        assert result.error == f"Error: File '{place}/missing' not found"

    async def test_edit_of_a_folder_is_an_error(self, sandbox: Sandbox, place: str) -> None:
        assert (await sandbox.aedit(place, "a", "b")).error is not None

    async def test_edit_of_what_is_no_text_changes_nothing_it_should_not(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/latin", b"caf\xe9 noir")
        result = await sandbox.aedit(path, "noir", "blanc")
        assert await get(sandbox, path) == (b"caf\xe9 noir" if result.error else b"caf\xe9 blanc")

    async def test_edit_keeps_the_mode(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && printf 'echo old' > run && chmod 751 run")
        assert (await sandbox.aedit(f"{place}/run", "old", "new")).error is None
        assert await ok(sandbox, f"stat -c %a {place}/run && {place}/run") == "751\nnew\n"

    async def test_edit_through_a_link_keeps_the_link(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && printf old > real && ln -s real link")
        assert (await sandbox.aedit(f"{place}/link", "old", "new")).error is None
        assert await ok(sandbox, f"readlink {place}/link && cat {place}/real") == "real\nnew"

    async def test_edit_of_a_long_string_of_wide_characters(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/text", "<" + "é" * 200_000 + ">")
        assert (await sandbox.aedit(path, "é" * 200_000, "日" * 200_000)).error is None
        assert await get(sandbox, path) == ("<" + "日" * 200_000 + ">").encode()

    async def test_a_reader_sees_the_file_before_or_after_an_edit_and_nothing_between(
        self, sandbox: Sandbox, place: str
    ) -> None:
        path = await put(sandbox, f"{place}/text", "a" * 1_000_000)
        editing = asyncio.gather(
            sandbox.aedit(path, "a", "b", replace_all=True), *(get(sandbox, path) for _ in range(20))
        )
        [result, *seen] = await editing
        assert isinstance(result, EditResult)
        assert result.error is None
        assert all(isinstance(data, bytes) and data in (b"a" * 1_000_000, b"b" * 1_000_000) for data in seen)

    async def test_edits_of_one_file_at_once_are_all_kept(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/text", " ".join(f"<{n}>" for n in range(16)))
        results = await asyncio.gather(*(sandbox.aedit(path, f"<{n}>", f"[{n}]") for n in range(16)))
        assert [result.error for result in results] == [None] * 16
        assert await get(sandbox, path) == " ".join(f"[{n}]" for n in range(16)).encode()

    async def test_delete_removes_a_file(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/file", "x")
        result = await sandbox.adelete(path)
        assert (result.error, result.path) == (None, path)
        assert not await exists(sandbox, path)

    async def test_delete_removes_a_folder_with_all_that_is_in_it(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir -p tree/a/b kept && : > tree/a/b/c && : > tree/.hidden && : > kept/x")
        await ok(sandbox, f"ln -s ../kept {place}/tree/link")
        assert (await sandbox.adelete(f"{place}/tree")).error is None
        assert await ok(sandbox, f"cd {place} && find . | sort") == ".\n./kept\n./kept/x\n"

    async def test_delete_removes_a_link_and_not_what_it_points_to(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir real && : > real/kept && ln -s real link")
        assert (await sandbox.adelete(f"{place}/link")).error is None
        assert await ok(sandbox, f"cd {place} && find . | sort") == ".\n./real\n./real/kept\n"

    async def test_delete_of_what_is_missing_is_an_error(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.adelete(f"{place}/missing")
        assert result.error == f"Error: File '{place}/missing' not found"

    async def test_delete_in_a_closed_folder_is_an_error(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir closed && : > closed/file && chmod 555 closed")
        assert (await sandbox.adelete(f"{place}/closed/file")).error is not None
        assert await exists(sandbox, f"{place}/closed/file")
