"""Checks that the sync form of each method says what its async twin says, from any thread and any loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sandboxes.sandbox import Sandbox
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, ok

Pair = tuple[Callable[[Sandbox, str], Any], Callable[[Sandbox, str], Awaitable[Any]]]

TWINS: dict[str, Pair] = {
    "ls": (lambda box, at: box.ls(at), lambda box, at: box.als(at)),
    "ls-missing": (lambda box, at: box.ls(at + "/no"), lambda box, at: box.als(at + "/no")),
    "read": (lambda box, at: box.read(at + "/a", 1, 1), lambda box, at: box.aread(at + "/a", 1, 1)),
    "read-missing": (lambda box, at: box.read(at + "/no"), lambda box, at: box.aread(at + "/no")),
    "grep": (
        lambda box, at: box.grep("two", at, "*.txt", max_count=1),
        lambda box, at: box.agrep("two", at, "*.txt", max_count=1),
    ),
    "glob": (lambda box, at: box.glob("**", at), lambda box, at: box.aglob("**", at)),
    "write-conflict": (lambda box, at: box.write(at + "/a", "x"), lambda box, at: box.awrite(at + "/a", "x")),
    "edit": (
        lambda box, at: box.edit(at + "/a", "two", "two", True),
        lambda box, at: box.aedit(at + "/a", "two", "two", True),
    ),
    "delete-missing": (lambda box, at: box.delete(at + "/no"), lambda box, at: box.adelete(at + "/no")),
    "upload": (
        lambda box, at: box.upload_files([(at + "/up", b"x"), ("../no", b"")]),
        lambda box, at: box.aupload_files([(at + "/up", b"x"), ("../no", b"")]),
    ),
    "download": (
        lambda box, at: box.download_files([at + "/a", at + "/no"]),
        lambda box, at: box.adownload_files([at + "/a", at + "/no"]),
    ),
    "execute": (lambda box, at: box.execute("echo hi; exit 3"), lambda box, at: box.aexecute("echo hi; exit 3")),
    "execute-timeout": (
        lambda box, at: box.execute("echo hi; sleep 60", timeout=1),
        lambda box, at: box.aexecute("echo hi; sleep 60", timeout=1),
    ),
}


class TwinChecks(Checks):
    """One behaviour, two forms."""

    @pytest.mark.parametrize(("sync", "twin"), TWINS.values(), ids=TWINS)
    async def test_a_sync_method_says_what_its_async_twin_says(
        self, sandbox: Sandbox, place: str, sync: Callable[[Sandbox, str], Any], twin: Callable[[Sandbox, str], Awaitable[Any]]
    ) -> None:
        await ok(sandbox, f"cd {place} && mkdir sub && printf 'one\\ntwo\\ntwo\\n' > a && cp a sub/b.txt && : > up")
        async with asyncio.timeout(ANSWER_DEADLINE):
            assert await asyncio.to_thread(sync, sandbox, place) == await twin(sandbox, place)

    @pytest.mark.parametrize("twin", [twin for _, twin in TWINS.values()], ids=TWINS)
    async def test_an_async_method_can_be_awaited_on_another_loop(
        self, sandbox: Sandbox, place: str, twin: Callable[[Sandbox, str], Awaitable[Any]]
    ) -> None:
        await ok(sandbox, f"cd {place} && mkdir sub && printf 'one\\ntwo\\ntwo\\n' > a && cp a sub/b.txt && : > up")

        async def elsewhere() -> Any:
            return await twin(sandbox, place)

        async with asyncio.timeout(ANSWER_DEADLINE):
            assert await asyncio.to_thread(asyncio.run, elsewhere()) == await twin(sandbox, place)

    async def test_sync_methods_work_in_many_threads_at_once(self, sandbox: Sandbox, place: str) -> None:
        async with asyncio.timeout(ANSWER_DEADLINE):
            results = await asyncio.gather(
                *(asyncio.to_thread(sandbox.write, f"{place}/{number}", str(number)) for number in range(16))
            )
        assert [result.error for result in results] == [None] * 16
        assert await ok(sandbox, f"ls {place} | wc -l") == "16\n"

    async def test_a_sync_method_on_the_loop_that_serves_it_is_refused_rather_than_locked(self, sandbox: Sandbox) -> None:
        with pytest.raises(RuntimeError, match="await"):
            sandbox.ls("/")

    async def test_an_error_of_the_sandbox_is_raised_by_both_forms(self, sandbox: Sandbox, place: str) -> None:
        for result in (await asyncio.to_thread(sandbox.read, f"{place}/no"), await sandbox.aread(f"{place}/no")):
            assert result.error == f"Error: File '{place}/no' not found"
