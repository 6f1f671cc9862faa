"""Checks that every name a file system allows works in every operation, and that no path leads out."""

from __future__ import annotations

import pytest

from sandboxes.protocol import INVALID_PATH
from sandboxes.sandbox import Sandbox
from sandboxes.testing.conformance.base import Checks, exists, get, put

NAMES = {
    "space": "a b",
    "outer-spaces": " a ",
    "newline": "a\nb",
    "trailing-newline": "a\n",
    "tab": "a\tb",
    "single-quote": "it's",
    "double-quote": 'say "hi"',
    "backslash": "a\\b\\n",
    "dash": "-rf",
    "dollar": "$HOME",
    "command": "$(echo x)`echo y`",
    "semicolon": "a;echo b&",
    "glob": "a*?[b]{c}",
    "hash": "#a",
    "tilde": "~",
    "equals": "a=b",
    "percent": "%s%n",
    "umlaut": "größe",
    "decomposed": "e\u0301",
    "emoji": "🎉",
    "control": "a\x01\x1b[31mb",
    "not-utf-8": "caf\udce9",
    "every-high-byte": "".join(chr(0xDC00 + byte) for byte in range(0x80, 0x100)),
    "255-bytes": "x" * 255,
    "255-bytes-wide": "日" * 85,
}

BAD_PATHS = {
    "up": "../outside",
    "up-and-down": "a/../../outside",
    "hidden-up": "/workspace/../tmp/outside",
    "nul": "a\0b",
    "empty": "",
}


class NameChecks(Checks):
    """Names as they are, and paths that are refused."""

    @pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
    async def test_a_file_of_any_name_can_be_listed_read_changed_and_deleted(
        self, sandbox: Sandbox, place: str, name: str
    ) -> None:
        path = f"{place}/{name}"
        assert (await sandbox.awrite(path, "needle\n")).error is None
        listing = await sandbox.als(place)
        assert [entry["path"] for entry in listing.entries or []] == [path]
        read = await sandbox.aread(path)
        assert read.file_data is not None
        assert read.file_data["content"] == "needle\n"
        assert (await sandbox.aedit(path, "needle", "thread")).occurrences == 1
        assert await get(sandbox, path) == b"thread\n"
        assert (await sandbox.adelete(path)).error is None
        assert (await sandbox.als(place)).entries == []

    @pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
    async def test_a_file_of_any_name_in_a_folder_of_this_name_is_found(
        self, sandbox: Sandbox, place: str, name: str
    ) -> None:
        path = await put(sandbox, f"{place}/{name}/{name}", b"needle\n")
        grep = await sandbox.agrep("needle", place)
        assert grep.matches == [{"path": path, "line": 1, "text": "needle"}]
        glob = await sandbox.aglob("**", f"{place}/{name}")
        assert [match["path"] for match in glob.matches or []] == [path]
        [entry] = await sandbox.manifest(place)
        assert entry.path == f"{name}/{name}"

    @pytest.mark.parametrize("path", BAD_PATHS.values(), ids=BAD_PATHS)
    async def test_a_path_that_could_lead_out_is_an_error_everywhere(self, sandbox: Sandbox, path: str) -> None:
        errors = [
            (await sandbox.als(path)).error,
            (await sandbox.aread(path)).error,
            (await sandbox.awrite(path, "x")).error,
            (await sandbox.aedit(path, "a", "b")).error,
            (await sandbox.adelete(path)).error,
        ]
        if path:  # no path at all means the working directory there
            errors += [(await sandbox.agrep("x", path)).error, (await sandbox.aglob("*", path)).error]
        assert all(error is not None and error.startswith("Error:") for error in errors), errors
        assert [response.error for response in await sandbox.aupload_files([(path, b"x")])] == [INVALID_PATH]
        assert [response.error for response in await sandbox.adownload_files([path])] == [INVALID_PATH]
        with pytest.raises(OSError):
            await anext(sandbox.download_stream(path))

    async def test_a_name_that_is_too_long_is_an_error_and_no_exception(self, sandbox: Sandbox, place: str) -> None:
        assert (await sandbox.awrite(f"{place}/{'x' * 256}", "x")).error is not None
        assert (await sandbox.aread(f"{place}/{'x' * 256}")).error is not None

    async def test_a_path_that_is_too_long_is_an_error_and_no_exception(self, sandbox: Sandbox, place: str) -> None:
        assert (await sandbox.awrite(place + "/" + "long/" * 2000 + "x", "x")).error is not None

    async def test_dots_and_slashes_in_a_path_mean_nothing(self, sandbox: Sandbox, place: str) -> None:
        result = await sandbox.awrite(f"{place}//./a///b/./c", "x")
        assert result.error is None
        assert await exists(sandbox, f"{place}/a/b/c")
