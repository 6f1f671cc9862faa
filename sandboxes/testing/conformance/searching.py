"""Checks of `grep` and `glob`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sandboxes.sandbox import Sandbox
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, ok, put

LITERALS = {
    "dot": "a.b", "star": "a*b", "class": "[a-z]+", "caret": "^start", "dollar": "end$", "backslash": "\\w\\b",
    "group": "(a|b)", "braces": "a{2}", "plus": "a+b", "question": "a?b", "dash": "-e",
    "long-option": "--help", "single-quote": "it's",
    "double-quote": '"x"', "shell": "$(id) `id` $HOME;", "percent": "%s", "umlaut": "größe", "wide": "日本語", "emoji": "🎉🎉",
    "spaces": "  two  ", "tab": "a\tb", "slash": "/etc/passwd", "hash": "#!", "not-utf-8": "caf\udce9",
}  # fmt: skip

TREE = (
    "a.py", "b.txt", ".hidden.py", "src/a.py", "src/b.js", "src/deep/c.py", "src/.config/d.py", "src/with space/e.py",
    "src/[x].py", "src/deep/README", "docs/b.txt",
)  # fmt: skip

GLOBS = {
    "a.py": ["a.py", "src/a.py"],
    "*.py": ["a.py", "src/[x].py", "src/a.py", "src/deep/c.py", "src/with space/e.py"],
    "*.txt": ["b.txt", "docs/b.txt"],
    "*": ["a.py", "b.txt", "docs/b.txt", "src/[x].py", "src/a.py", "src/b.js", "src/deep/README", "src/deep/c.py",
          "src/with space/e.py"],
    "**": ["a.py", "b.txt", "docs/b.txt", "src/[x].py", "src/a.py", "src/b.js", "src/deep/README", "src/deep/c.py",
           "src/with space/e.py"],
    "?.py": ["a.py", "src/a.py", "src/deep/c.py", "src/with space/e.py"],
    "[ab].*": ["a.py", "b.txt", "docs/b.txt", "src/a.py", "src/b.js"],
    "[!a].py": ["src/deep/c.py", "src/with space/e.py"],
    "[[]x].py": ["src/[x].py"],
    "*.{js,txt}": ["b.txt", "docs/b.txt", "src/b.js"],
    "{README,a.py}": ["a.py", "src/a.py", "src/deep/README"],
    ".hidden.py": [".hidden.py"],
    ".*": [".hidden.py"],
    "/a.py": ["a.py"],
    "/*.py": ["a.py"],
    "src/*.py": ["src/[x].py", "src/a.py"],
    "src/**": ["src/[x].py", "src/a.py", "src/b.js", "src/deep/README", "src/deep/c.py", "src/with space/e.py"],
    "src/**/*.py": ["src/[x].py", "src/a.py", "src/deep/c.py", "src/with space/e.py"],
    "**/c.py": ["src/deep/c.py"],
    "**/a.py": ["a.py", "src/a.py"],
    "**/deep/**": ["src/deep/README", "src/deep/c.py"],
    "*/a.py": ["src/a.py"],
    "*/*/*.py": ["src/deep/c.py", "src/with space/e.py"],
    "src/.config/*.py": ["src/.config/d.py"],
    "src/with space/*": ["src/with space/e.py"],
    "{src,docs}/b.*": ["docs/b.txt", "src/b.js"],
    "*.PY": [],
    "deep": [],
    "py": [],
}  # fmt: skip


async def plant(sandbox: Sandbox, place: str) -> None:
    """Put the tree there that the glob table is about."""
    responses = await sandbox.aupload_files([(f"{place}/{name}", b"needle\n") for name in TREE])
    assert not any(response.error for response in responses)


def below(place: str, matches: Any) -> list[str]:
    """The paths of matches, relative to `place`."""
    return [match["path"].removeprefix(place + "/") for match in matches]


class SearchChecks(Checks):
    """Finding lines and files."""

    @pytest.mark.parametrize("pattern", LITERALS.values(), ids=LITERALS)
    async def test_grep_takes_every_character_literally(self, sandbox: Sandbox, place: str, pattern: str) -> None:
        line = f"<{pattern}>".encode("utf-8", "surrogateescape")
        await put(sandbox, f"{place}/with", b"aab\n" + line + b"\nab\n")
        await put(sandbox, f"{place}/without", b"aab ab aXb abc start end w a b c\n")
        result = await sandbox.agrep(pattern, place)
        if pattern.isprintable() or "\t" in pattern:
            assert result.error is None
            assert result.matches == [{"path": f"{place}/with", "line": 2, "text": f"<{pattern}>"}]
        else:
            assert result.matches == [], "a file that is not UTF-8 is not text"

    async def test_grep_answers_in_order_of_path_and_line(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/b", "x\nneedle 1\n\nneedle 2 needle\n")
        await put(sandbox, f"{place}/a/z", "needle 3")
        await put(sandbox, f"{place}/a.txt", "needle 4\r\n")
        result = await sandbox.agrep("needle", place)
        assert result.matches == sorted(
            [
                {"path": f"{place}/a/z", "line": 1, "text": "needle 3"},
                {"path": f"{place}/a.txt", "line": 1, "text": "needle 4"},
                {"path": f"{place}/b", "line": 2, "text": "needle 1"},
                {"path": f"{place}/b", "line": 4, "text": "needle 2 needle"},
            ],
            key=lambda match: (str(match["path"]), match["line"]),
        )
        assert not result.truncated

    async def test_grep_tells_upper_from_lower_case(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/a", "Needle\nneedle\n")
        assert [match["line"] for match in (await sandbox.agrep("needle", place)).matches or []] == [2]

    async def test_grep_looks_into_one_file(self, sandbox: Sandbox, place: str) -> None:
        await plant(sandbox, place)
        result = await sandbox.agrep("needle", f"{place}/src/a.py")
        assert below(place, result.matches) == ["src/a.py"]

    async def test_grep_looks_into_hidden_files(self, sandbox: Sandbox, place: str) -> None:
        await plant(sandbox, place)
        found = below(place, (await sandbox.agrep("needle", place)).matches)
        assert sorted(found) == sorted(TREE)

    @pytest.mark.parametrize(
        ("glob", "expected"),
        [("*.txt", ["b.txt", "docs/b.txt"]), ("docs/*", ["docs/b.txt"]), ("*.{js,md}", ["src/b.js"]), ("*.none", [])],
    )
    async def test_grep_looks_only_where_the_glob_allows(
        self, sandbox: Sandbox, place: str, glob: str, expected: list[str]
    ) -> None:
        await plant(sandbox, place)
        assert below(place, (await sandbox.agrep("needle", place, glob)).matches) == expected

    async def test_grep_stops_at_the_count_and_says_so(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/many", "needle\n" * 10)
        less = await sandbox.agrep("needle", place, max_count=3)
        assert (len(less.matches or []), less.truncated) == (3, True)
        exact = await sandbox.agrep("needle", place, max_count=10)
        assert (len(exact.matches or []), exact.truncated) == (10, False)

    async def test_grep_looks_through_no_link_but_the_one_that_it_is_given(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir real && echo needle > real/file && ln -s real/file link && ln -s real folder")
        assert below(place, (await sandbox.agrep("needle", place)).matches) == ["real/file"]
        assert below(place, (await sandbox.agrep("needle", f"{place}/link")).matches) == ["link"]

    async def test_grep_skips_what_is_no_text(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/binary", b"\0\1\2 needle\n")
        await put(sandbox, f"{place}/latin", b"caf\xe9 needle\n")
        await put(sandbox, f"{place}/drawing.svg", b"needle\n")
        await put(sandbox, f"{place}/text", b"needle\n")
        assert below(place, (await sandbox.agrep("needle", place)).matches) == ["text"]
        assert (await sandbox.agrep("needle", f"{place}/drawing.svg")).matches == []

    async def test_grep_without_a_match_is_an_empty_success(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/a", "hay\n")
        result = await sandbox.agrep("needle", place)
        assert (result.error, result.matches, result.truncated) == (None, [], False)

    async def test_grep_below_a_missing_path_is_an_error(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.agrep("needle", f"{place}/missing")
        assert result.error is not None
        assert "not found" in result.error
        assert result.matches is None

    async def test_grep_for_nothing_is_an_error(self, sandbox: Sandbox, place: str) -> None:
        assert (await sandbox.agrep("", place)).error is not None

    async def test_grep_finds_a_pattern_of_more_than_a_megabyte(self, sandbox: Sandbox, place: str) -> None:
        pattern = "0123456789abcdef" * 80_000
        await put(sandbox, f"{place}/long", "short\n" + pattern + "!\n")
        result = await sandbox.agrep(pattern, place)
        assert result.error is None
        assert [(match["path"], match["line"]) for match in result.matches or []] == [(f"{place}/long", 2)]
        assert (await sandbox.agrep(pattern + "?", place)).matches == []

    async def test_grep_does_not_send_an_endless_line_whole(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/line", "needle" + "x" * 3_000_000)
        [match] = (await sandbox.agrep("needle", place)).matches or []
        assert len(match["text"]) < 10_000

    async def test_grep_is_not_held_by_pipes_loops_and_closed_folders(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/text", "needle\n")
        await ok(sandbox, f"cd {place} && mkfifo pipe && ln -s . loop && mkdir closed && chmod 000 closed && ln -s x x")
        async with asyncio.timeout(ANSWER_DEADLINE):
            result = await sandbox.agrep("needle", place)
        assert below(place, result.matches) == ["text"]

    async def test_grep_and_glob_begin_in_the_working_directory(self, sandbox: Sandbox, place: str) -> None:
        name = place.rpartition("/")[2] + ".unique"
        await put(sandbox, f"{place}/{name}", f"{name}!")
        assert below(place, (await sandbox.agrep(f"{name}!")).matches) == [name]
        assert below(place, (await sandbox.aglob(name)).matches) == [name]

    @pytest.mark.parametrize(("pattern", "expected"), GLOBS.items(), ids=GLOBS)
    async def test_glob_finds_what_the_rules_say(
        self, sandbox: Sandbox, place: str, pattern: str, expected: list[str]
    ) -> None:
        await plant(sandbox, place)
        result = await sandbox.aglob(pattern, place)
        assert (result.error, result.truncated) == (None, False)
        assert below(place, result.matches) == sorted(expected)

    @pytest.mark.parametrize("pattern", ["", "../*", "a/../../*", "a\0b"], ids=["empty", "up", "inner-up", "nul"])
    async def test_glob_refuses_a_pattern_that_makes_no_sense(self, sandbox: Sandbox, place: str, pattern: str) -> None:
        assert (await sandbox.aglob(pattern, place)).error is not None

    async def test_glob_below_a_missing_path_is_an_error(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.aglob("*", f"{place}/missing")
        assert result.error is not None
        assert result.matches is None

    async def test_glob_finds_more_than_ten_thousand_files(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && seq 12000 | xargs touch")
        result = await sandbox.aglob("*", place)
        assert (len(result.matches or []), result.truncated) == (12_000, False)

    async def test_glob_says_when_a_folder_could_not_be_read(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && : > seen && mkdir closed && : > closed/unseen && chmod 000 closed")
        result = await sandbox.aglob("*", place)
        assert below(place, result.matches) == ["seen"]
        assert (result.truncated, result.truncation_reason) == (True, "unreadable")

    async def test_glob_finds_a_link_to_a_file_and_follows_no_link_to_a_folder(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir real && : > real/file && ln -s real/file link && ln -s . loop && ln -s x x")
        assert below(place, (await sandbox.aglob("**", place)).matches) == ["link", "real/file"]

    async def test_a_folder_too_deep_for_any_path_hurts_nothing(self, sandbox: Sandbox, place: str) -> None:
        name = "d" * 200
        await ok(sandbox, f"cd {place} && i=0 && while [ $i -lt 40 ]; do mkdir {name} && cd -P {name} && i=$((i+1)); done")
        async with asyncio.timeout(ANSWER_DEADLINE):
            assert (await sandbox.agrep("needle", place)).error is None
            assert (await sandbox.aglob("*", place)).error is None
            await sandbox.adelete(f"{place}/{name}")
        assert await ok(sandbox, "echo fine") == "fine\n"
