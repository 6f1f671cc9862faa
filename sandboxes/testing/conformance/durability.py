"""Checks that nothing is done twice and nothing is lost when a client dies, and another goes on."""

from __future__ import annotations

import asyncio
import json

import pytest

from sandboxes.sandbox import CommandSpec
from sandboxes.testing.conformance import elsewhere
from sandboxes.testing.conformance.base import (
    ANSWER_DEADLINE,
    Checks,
    Made,
    Maker,
    ProviderFactory,
    exists,
    finished,
    get,
    ok,
    put,
    until,
)
from sandboxes.toolbox.calls import call_scope

LINES = 200_000
"""Lines of the long output that is read by two clients in turn."""


class DurabilityChecks(Checks):
    """Call ids, second clients, clients that are killed."""

    async def test_a_call_id_runs_a_command_once(self, shared: Made, place: str) -> None:
        spec = CommandSpec(f"echo ran >> {place}/log; echo hello; exit 3")
        first = await finished(await shared.sandbox.start(spec, call_id=f"{place}/once"))
        again = await finished(await shared.sandbox.start(spec, call_id=f"{place}/once"))
        assert first == again
        assert (first[0], first[2].exit_code) == (b"hello\n", 3)
        assert await get(shared.sandbox, f"{place}/log") == b"ran\n"

    async def test_starts_of_one_call_id_at_once_run_it_once(self, shared: Made, fresh: Maker, place: str) -> None:
        other = await fresh.attach(shared.handle)
        spec = CommandSpec(f"echo ran >> {place}/log; echo hello")
        commands = await asyncio.gather(
            *(client.start(spec, call_id=f"{place}/race") for client in (shared.sandbox, other) for _ in range(4))
        )
        assert {(await finished(command))[0] for command in commands} == {b"hello\n"}
        assert await get(other, f"{place}/log") == b"ran\n"

    async def test_a_finished_command_is_known_to_another_client(self, shared: Made, fresh: Maker, place: str) -> None:
        command = await shared.sandbox.start(CommandSpec("echo out; echo err >&2; exit 5"), call_id=f"{place}/done")
        await command.wait()
        known = await (await fresh.attach(shared.handle)).command(f"{place}/done")
        assert known is not None
        out, err, result = await finished(known)
        assert (out, err, result.exit_code) == (b"out\n", b"err\n", 5)

    async def test_a_call_id_that_was_never_used_is_not_known(self, shared: Made) -> None:
        assert await shared.sandbox.command("never") is None

    @pytest.mark.parametrize("call_id", ["../../escape", "a/b", "with space\n", "ü🎉", "x" * 2000, "-rf", "$(id)"])
    async def test_a_call_id_may_be_any_text(self, shared: Made, place: str, call_id: str) -> None:
        command = await shared.sandbox.start(CommandSpec("echo hello"), call_id=f"{place}:{call_id}")
        assert command.call_id == f"{place}:{call_id}"
        assert (await finished(command))[0] == b"hello\n"
        assert await shared.sandbox.command(f"{place}:{call_id}") is not None

    async def test_a_second_client_goes_on_where_the_first_one_stopped(
        self, shared: Made, fresh: Maker, place: str
    ) -> None:
        first = await fresh.attach(shared.handle)
        script = f"seq {LINES}; read x < {place}/gate; seq {LINES} {2 * LINES}"
        await ok(shared.sandbox, f"mkfifo {place}/gate")
        command = await first.start(CommandSpec(script), call_id=f"{place}/long")
        seen = b""
        async with asyncio.timeout(ANSWER_DEADLINE):
            async for chunk in command.output():
                seen += chunk.data
                if len(seen) > 100_000:
                    break
        await first.aclose()
        second = await fresh.attach(shared.handle)
        adopted = await second.command(f"{place}/long")
        assert adopted is not None
        opening = asyncio.create_task(second.aexecute(f"echo go > {place}/gate"))
        async with asyncio.timeout(ANSWER_DEADLINE):
            async for chunk in adopted.output(stdout=len(seen)):
                assert chunk.offset == len(seen)
                seen += chunk.data
            await opening
        expected = [*range(1, LINES + 1), *range(LINES, 2 * LINES + 1)]
        assert seen == "".join(f"{n}\n" for n in expected).encode()

    async def test_a_command_outlives_its_client(self, shared: Made, fresh: Maker, place: str) -> None:
        first = await fresh.attach(shared.handle)
        await first.start(CommandSpec(f"while [ ! -e {place}/go ]; do sleep 0.05; done; echo end"), call_id=f"{place}/on")
        await first.aclose()
        await put(shared.sandbox, f"{place}/go", "")
        adopted = await shared.sandbox.command(f"{place}/on")
        assert adopted is not None
        assert (await finished(adopted))[0] == b"end\n"

    async def test_a_second_client_feeds_and_kills(self, shared: Made, fresh: Maker, place: str) -> None:
        await shared.sandbox.start(CommandSpec("read x; echo got $x; sleep 600", stdin=True), call_id=f"{place}/fed")
        second = await (await fresh.attach(shared.handle)).command(f"{place}/fed")
        assert second is not None
        await second.send(b"it\n")
        async with asyncio.timeout(ANSWER_DEADLINE):
            assert (await anext(second.output())).data == b"got it\n"
            await second.kill()
            assert (await second.wait()).exit_code == 128 + 9

    async def test_a_client_killed_in_the_middle_loses_nothing(
        self, shared: Made, provider_factory: ProviderFactory, place: str
    ) -> None:
        script = f"echo started >> {place}/log; while [ ! -e {place}/go ]; do sleep 0.05; done; echo end"
        job = elsewhere.Job(shared.handle.to_json(), "start", {"command": script, "call_id": f"{place}/killed"})
        process = await elsewhere.begin(provider_factory, job)
        assert process.stdout is not None
        async with asyncio.timeout(ANSWER_DEADLINE):
            assert await process.stdout.readline() == b"started\n"
        process.kill()
        await process.wait()
        await put(shared.sandbox, f"{place}/go", "")
        again = await shared.sandbox.start(CommandSpec(script), call_id=f"{place}/killed")
        out, _, result = await finished(again)
        assert (out, result.exit_code) == (b"end\n", 0)
        assert await get(shared.sandbox, f"{place}/log") == b"started\n"

    async def test_a_killed_clients_execute_is_answered_once_to_the_next(
        self, shared: Made, provider_factory: ProviderFactory, place: str
    ) -> None:
        script = f"echo ran >> {place}/log; while [ ! -e {place}/go ]; do sleep 0.05; done; echo end"
        job = elsewhere.Job(shared.handle.to_json(), "execute", {"command": script, "scope": f"{place}/tool"})
        process = await elsewhere.begin(provider_factory, job)
        await until(lambda: exists(shared.sandbox, f"{place}/log"), "the command has started")
        process.kill()
        await process.wait()
        await put(shared.sandbox, f"{place}/go", "")
        with call_scope(f"{place}/tool"):
            async with asyncio.timeout(ANSWER_DEADLINE):
                result = await shared.sandbox.aexecute(script)
        assert (result.output, result.exit_code) == ("end\n", 0)
        assert await get(shared.sandbox, f"{place}/log") == b"ran\n"

    async def test_another_process_adopts_a_sandbox_by_its_handle(
        self, shared: Made, provider_factory: ProviderFactory, place: str
    ) -> None:
        await put(shared.sandbox, f"{place}/file", "for the other")
        job = elsewhere.Job(shared.handle.to_json(), "read", {"path": f"{place}/file"})
        process = await elsewhere.begin(provider_factory, job)
        async with asyncio.timeout(ANSWER_DEADLINE):
            said, _ = await process.communicate()
        assert process.returncode == 0
        assert json.loads(said) == {"content": "for the other", "pid": process.pid}

    async def test_a_repeated_write_answers_the_same_and_writes_once(self, shared: Made, place: str) -> None:
        results = []
        for _ in range(2):
            with call_scope(f"{place}/write"):
                results.append(await shared.sandbox.awrite(f"{place}/file", "first"))
            await ok(shared.sandbox, f"printf more >> {place}/file")
        assert results[0] == results[1]
        assert results[0].error is None
        assert await get(shared.sandbox, f"{place}/file") == b"firstmoremore"

    async def test_a_repeated_edit_answers_the_same_and_edits_once(self, shared: Made, place: str) -> None:
        path = await put(shared.sandbox, f"{place}/file", "a")
        results = []
        for _ in range(2):
            with call_scope(f"{place}/edit"):
                results.append(await shared.sandbox.aedit(path, "a", "aa", replace_all=True))
        assert results[0] == results[1]
        assert results[0].occurrences == 1
        assert await get(shared.sandbox, path) == b"aa"

    async def test_a_repeated_failure_answers_the_same(self, shared: Made, place: str) -> None:
        path = await put(shared.sandbox, f"{place}/file", "a")
        errors = []
        for _ in range(2):
            with call_scope(f"{place}/edit"):
                errors.append((await shared.sandbox.aedit(path, "b", "c")).error)
            await put(shared.sandbox, path, "b")
        assert errors[0] is not None
        assert errors[0] == errors[1]

    async def test_a_repeated_delete_answers_the_same_and_deletes_once(self, shared: Made, place: str) -> None:
        path = await put(shared.sandbox, f"{place}/file", "old")
        for _ in range(2):
            with call_scope(f"{place}/delete"):
                assert (await shared.sandbox.adelete(path)).error is None
            await put(shared.sandbox, path, "new")
        assert await get(shared.sandbox, path) == b"new"

    async def test_a_repeated_execute_runs_once_also_for_another_client(
        self, shared: Made, fresh: Maker, place: str
    ) -> None:
        results = []
        for client in (shared.sandbox, shared.sandbox, await fresh.attach(shared.handle)):
            with call_scope(f"{place}/run"):
                results.append(await client.aexecute(f"echo ran >> {place}/log; echo hello; exit 4"))
        assert results[0] == results[1] == results[2]
        assert (results[0].output, results[0].exit_code) == ("hello\n", 4)
        assert await get(shared.sandbox, f"{place}/log") == b"ran\n"

    async def test_calls_of_one_scope_are_told_apart(self, shared: Made, place: str) -> None:
        for _ in range(2):
            with call_scope(f"{place}/several"):
                for number in range(3):
                    assert (await shared.sandbox.awrite(f"{place}/{number}", str(number))).error is None
        assert await ok(shared.sandbox, f"cat {place}/0 {place}/1 {place}/2") == "012"

    async def test_calls_outside_of_any_scope_are_never_taken_for_each_other(self, shared: Made, place: str) -> None:
        for _ in range(2):
            await shared.sandbox.aexecute(f"echo ran >> {place}/log")
        assert await get(shared.sandbox, f"{place}/log") == b"ran\nran\n"
