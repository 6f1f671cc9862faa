"""Checks of uploads and downloads, in batches and as streams."""

from __future__ import annotations

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from sandboxes.sandbox import FileEntry, Sandbox
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, get, ok, put

STREAMED = 50 * 1024 * 1024
"""Bytes that are streamed each way."""
PIECE = 1024 * 1024
"""Bytes of one piece of a stream at most."""
CLIENT_MEMORY = 24 * 1024 * 1024
"""Bytes that the client may hold while it streams."""


async def pieces(total: int, size: int = PIECE) -> AsyncIterator[bytes]:
    """`total` bytes that differ from piece to piece."""
    for start in range(0, total, size):
        yield hashlib.sha256(str(start).encode()).digest() * (min(size, total - start) // 32)


async def digest(stream: AsyncIterator[bytes]) -> str:
    """SHA-256 of a stream."""
    state = hashlib.sha256()
    async for piece in stream:
        assert len(piece) <= PIECE
        state.update(piece)
    return state.hexdigest()


class TransferChecks(Checks):
    """What goes in and out as bytes."""

    async def test_an_upload_of_nothing_answers_nothing(self, sandbox: Sandbox) -> None:
        assert await sandbox.aupload_files([]) == []
        assert await sandbox.adownload_files([]) == []

    @pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 1000, b"\r\n\0\xff"], ids=["empty", "one", "bytes", "odd"])
    async def test_bytes_come_back_as_they_went_in(self, sandbox: Sandbox, place: str, data: bytes) -> None:
        assert await get(sandbox, await put(sandbox, f"{place}/data", data)) == data

    async def test_a_file_of_many_megabytes_fits_in_a_batch(self, sandbox: Sandbox, place: str) -> None:
        data = bytes(range(256)) * (20 * 4096)
        assert await get(sandbox, await put(sandbox, f"{place}/data", data)) == data

    async def test_a_batch_keeps_its_order(self, sandbox: Sandbox, place: str) -> None:
        files = [(f"{place}/{number}/{number}", str(number).encode()) for number in range(100)]
        responses = await sandbox.aupload_files(files)
        assert [(response.path, response.error) for response in responses] == [(path, None) for path, _ in files]
        back = await sandbox.adownload_files([path for path, _ in reversed(files)])
        assert [(response.path, response.content) for response in back] == list(reversed(files))

    async def test_an_upload_overwrites_and_the_last_of_a_batch_wins(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/data", b"a much longer old content")
        await sandbox.aupload_files([(path, b"first"), (path, b"second")])
        assert await get(sandbox, path) == b"second"

    async def test_each_file_of_an_upload_succeeds_or_fails_by_itself(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir folder closed && : > file && chmod 555 closed")
        paths = ["good", "folder", "closed/new", "../up", "file/below", "", "also/good"]
        targets = [f"{place}/{path}" if path else "" for path in paths]
        responses = await sandbox.aupload_files([(target, b"x") for target in targets])
        assert [response.path for response in responses] == targets
        assert [response.error for response in responses] == [
            None, "is_directory", "permission_denied", "invalid_path", "invalid_path", "invalid_path", None,
        ]  # fmt: skip
        assert await get(sandbox, f"{place}/also/good") == b"x"

    async def test_each_file_of_a_download_succeeds_or_fails_by_itself(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir folder && printf x > good && : > closed && chmod 000 closed")
        paths = ["missing", "good", "folder", "closed", "../up", "good/below", "good"]
        responses = await sandbox.adownload_files([f"{place}/{path}" for path in paths])
        assert [response.path for response in responses] == [f"{place}/{path}" for path in paths]
        assert [(response.content, response.error) for response in responses] == [
            (None, "file_not_found"), (b"x", None), (None, "is_directory"), (None, "permission_denied"),
            (None, "invalid_path"), (None, "invalid_path"), (b"x", None),
        ]  # fmt: skip

    async def test_an_upload_keeps_the_mode_of_the_file_it_replaces(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f": > {place}/run && chmod 750 {place}/run")
        await put(sandbox, f"{place}/run", "echo hello")
        assert await ok(sandbox, f"stat -c %a {place}/run && {place}/run") == "750\nhello\n"

    async def test_fifty_megabytes_stream_in_without_being_held(self, sandbox: Sandbox, place: str) -> None:
        tracemalloc.start()
        try:
            await sandbox.upload_stream(f"{place}/big", pieces(STREAMED))
            assert tracemalloc.get_traced_memory()[1] < CLIENT_MEMORY
        finally:
            tracemalloc.stop()
        inside = (await ok(sandbox, f"sha256sum {place}/big")).split()[0]
        assert inside == await digest(pieces(STREAMED))

    async def test_fifty_megabytes_stream_out_without_being_held(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"seq 10000000 | head -c {STREAMED} > {place}/big")
        inside = (await ok(sandbox, f"sha256sum {place}/big")).split()[0]
        tracemalloc.start()
        try:
            assert await digest(sandbox.download_stream(f"{place}/big")) == inside
            assert tracemalloc.get_traced_memory()[1] < CLIENT_MEMORY
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize(("mode", "shown"), [(0o644, "644"), (0o755, "755"), (0o600, "600")])
    async def test_a_streamed_file_has_the_mode_it_was_given(
        self, sandbox: Sandbox, place: str, mode: int, shown: str
    ) -> None:
        await sandbox.upload_stream(f"{place}/data", pieces(64), mode=mode)
        assert await ok(sandbox, f"stat -c %a {place}/data") == shown + "\n"

    async def test_a_stream_of_nothing_makes_an_empty_file(self, sandbox: Sandbox, place: str) -> None:
        await sandbox.upload_stream(f"{place}/sub/empty", pieces(0))
        assert await digest(sandbox.download_stream(f"{place}/sub/empty")) == hashlib.sha256().hexdigest()

    async def test_an_upload_that_breaks_off_changes_nothing(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/data", "old")

        async def broken() -> AsyncIterator[bytes]:
            yield b"x" * PIECE
            raise ConnectionResetError("the source broke")

        with pytest.raises(ConnectionResetError):
            await sandbox.upload_stream(f"{place}/data", broken())
        assert await get(sandbox, f"{place}/data") == b"old"
        assert await ok(sandbox, f"ls -A {place}") == "data\n"

    async def test_a_streamed_file_appears_at_once_when_it_is_whole(self, sandbox: Sandbox, place: str) -> None:
        path = await put(sandbox, f"{place}/data", "old")
        seen: list[bytes] = []

        async def watched() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b"n" * PIECE
                seen.append(await get(sandbox, path))

        await sandbox.upload_stream(path, watched())
        assert seen == [b"old"] * 3
        assert await get(sandbox, path) == b"n" * 3 * PIECE

    @pytest.mark.parametrize(
        ("where", "error"), [("missing", FileNotFoundError), ("folder", IsADirectoryError), ("closed", PermissionError)]
    )
    async def test_a_download_stream_of_what_cannot_be_read_raises(
        self, sandbox: Sandbox, place: str, where: str, error: type[OSError]
    ) -> None:
        await ok(sandbox, f"cd {place} && mkdir folder && : > closed && chmod 000 closed")
        with pytest.raises(error, match=where):
            await digest(sandbox.download_stream(f"{place}/{where}"))

    async def test_many_small_files_come_in_the_order_in_which_they_were_asked_for(
        self, sandbox: Sandbox, place: str
    ) -> None:
        files = [(f"{place}/{number}", bytes([number]) * (number * 300)) for number in range(150)]
        files += [(f"{place}/{name}", name.encode("utf-8", "surrogateescape")) for name in ("a b", "line\n", "\udcff", "Z")]
        await sandbox.aupload_files(files)
        wanted = [(path, len(content)) for path, content in reversed(files)]
        assert await sandbox.download_small(wanted) == [content for _, content in reversed(files)]
        assert await sandbox.download_small([]) == []

    async def test_a_small_file_that_is_longer_than_it_was_to_be_does_not_come(self, sandbox: Sandbox, place: str) -> None:
        sizes = {"empty": 0, "one": 1, "some": 1000, "large": 3 * PIECE}
        await sandbox.aupload_files([(f"{place}/{name}", b"x" * size) for name, size in sizes.items()])
        for more, expected in ((0, [*sizes.values()]), (-1, [None] * 4), (1, [*sizes.values()])):
            came = await sandbox.download_small([(f"{place}/{name}", max(0, size + more)) for name, size in sizes.items()])
            assert [None if one is None else len(one) for one in came if not isinstance(one, OSError)] == [
                0 if not size else wanted for wanted, size in zip(expected, sizes.values(), strict=True)
            ]

    async def test_each_small_file_comes_or_fails_by_itself(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir folder && printf x > good && : > closed && chmod 000 closed && mkfifo pipe")
        await ok(sandbox, f"cd {place} && ln -s good link && ln -s nowhere dangling && printf xyz > long")
        paths = [f"{place}/{name}" for name in ("missing", "good", "folder", "closed", "good/below", "dangling", "pipe")]
        came = await sandbox.download_small([*((path, 1) for path in paths), (f"{place}/long", 2), (f"{place}/link", 1)])
        assert [one if isinstance(one, bytes) or one is None else type(one) for one in came] == [
            FileNotFoundError, b"x", IsADirectoryError, PermissionError, OSError, FileNotFoundError, OSError, None, b"x",
        ]  # fmt: skip
        for path, one in zip(paths, came, strict=False):
            if isinstance(one, OSError):
                with pytest.raises(type(one)) as alone:
                    await digest(sandbox.download_stream(path))
                assert str(one) == str(alone.value)

    async def test_a_path_that_cannot_be_fails_among_small_files_that_come(self, sandbox: Sandbox, place: str) -> None:
        good = await put(sandbox, f"{place}/good", "x")
        first, middle, last = await sandbox.download_small([(good, 1), (f"{place}/../up", 1), (good, 1)])
        assert (first, last) == (b"x", b"x")
        assert isinstance(middle, OSError)

    @pytest.mark.parametrize("where", ["folder", "closed/new", "file/below", "../up"])
    async def test_an_upload_stream_to_where_no_file_can_be_raises(self, sandbox: Sandbox, place: str, where: str) -> None:
        await ok(sandbox, f"cd {place} && mkdir folder closed && : > file && chmod 555 closed")
        with pytest.raises(OSError, match=where.partition("/")[0]):
            await sandbox.upload_stream(f"{place}/{where}", pieces(64))

    async def test_a_download_may_be_given_up_half_way(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"head -c 50000000 /dev/zero > {place}/big")
        stream = sandbox.download_stream(f"{place}/big")
        assert len(await anext(stream)) > 0
        await stream.aclose()  # type: ignore[attr-defined]  # it is an async generator
        assert await ok(sandbox, "echo fine") == "fine\n"

    async def test_streams_at_once_do_not_delay_a_read(self, sandbox: Sandbox, place: str) -> None:
        await put(sandbox, f"{place}/small", "small")
        uploads = [asyncio.create_task(sandbox.upload_stream(f"{place}/{n}", pieces(STREAMED // 4))) for n in range(3)]
        reads = 0
        while not all(upload.done() for upload in uploads):
            async with asyncio.timeout(ANSWER_DEADLINE):
                assert await get(sandbox, f"{place}/small") == b"small"
            reads += 1
        await asyncio.gather(*uploads)
        assert reads > 0

    async def test_the_manifest_tells_files_and_links_with_their_git_blobs(self, sandbox: Sandbox, place: str) -> None:
        await ok(
            sandbox,
            f"cd {place} && mkdir -p sub/skip empty && printf hello > sub/file && printf hi > run && chmod 755 run"
            " && ln -s sub/file link && ln -s nowhere dangling && : > sub/skip/x && : > 'a b' && mkfifo pipe",
        )
        assert await sandbox.manifest(place, exclude=["skip"]) == [
            FileEntry("a b", "100644", 0, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            FileEntry("dangling", "120000", 7, _blob(b"nowhere"), "nowhere"),
            FileEntry("link", "120000", 8, _blob(b"sub/file"), "sub/file"),
            FileEntry("run", "100755", 2, _blob(b"hi")),
            FileEntry("sub/file", "100644", 5, _blob(b"hello")),
        ]

    async def test_a_manifest_knows_of_every_change_since_the_one_before(self, sandbox: Sandbox, place: str) -> None:
        async def blobs() -> dict[str, str]:
            return {entry.path: entry.blob for entry in await sandbox.manifest(place)}

        await ok(sandbox, f"cd {place} && printf one > a && printf two > b && printf two > c && touch -d '2001-01-01' a b c")
        assert await blobs() == {"a": _blob(b"one"), "b": _blob(b"two"), "c": _blob(b"two")}
        await ok(sandbox, f"cd {place} && printf six > a && rm b && mv c d && touch -d '2001-01-01' a d")
        for _ in range(2):
            assert await blobs() == {"a": _blob(b"six"), "d": _blob(b"two")}


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
