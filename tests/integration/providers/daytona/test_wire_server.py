"""The wire server is as strict as what it stands for, so that what passes against it says something."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from daytona import (
    AsyncDaytona,
    CreateSandboxFromSnapshotParams,
    DaytonaConfig,
    DaytonaError,
    DaytonaNotFoundError,
    DaytonaUnprocessableEntityError,
    FileUpload,
    SessionExecuteRequest,
)
from daytona.common.errors import DaytonaFileNotFoundError, DaytonaProcessExecutionTimeoutError

from tests.integration.providers.daytona.conftest import until


@pytest.fixture
def api(server):
    with httpx.Client(base_url=server.api_url, headers={"Authorization": f"Bearer {server.key}"}) as client:
        yield client


@pytest.fixture
async def box(server):
    async with AsyncDaytona(DaytonaConfig(api_key=server.key, api_url=server.api_url, target="us")) as client:
        made = await client.create(CreateSandboxFromSnapshotParams(name="strict"))
        yield made
        await made.delete(wait=True)


def test_nothing_is_answered_without_the_key(server):
    for path in ("/api/sandbox", "/api/snapshots", "/toolbox/x/work-dir"):
        assert httpx.get(server.url + path).status_code == 401
        assert httpx.get(server.url + path, headers={"Authorization": "Bearer no"}).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"nmae": "x"}, 400),
        ({"name": 7}, 400),
        ({"cpu": 1.5, "buildInfo": {"dockerfileContent": "FROM python:3.12-slim"}}, 400),
        ({"cpu": 99, "buildInfo": {"dockerfileContent": "FROM python:3.12-slim"}}, 400),
        ({"cpu": 1}, 400),
        ({"snapshot": "nobody's"}, 404),
    ],
    ids=str,
)
def test_a_request_that_is_wrong_is_refused_and_makes_nothing(server, api, body, status):
    assert api.post("/sandbox", json=body).status_code == status
    assert server.world.created == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/sandbox/no"), ("DELETE", "/sandbox/no"), ("POST", "/sandbox/no/fork"), ("GET", "/snapshots/no"), ("GET", "/no")],
)
def test_what_is_not_there_is_404(api, method, path):
    assert api.request(method, path, json={}).status_code == 404


async def test_two_sandboxes_cannot_have_one_name(api, box):
    assert api.post("/sandbox", json={"name": "strict"}).status_code == 409


async def test_a_container_cannot_be_forked(box):
    with pytest.raises(DaytonaUnprocessableEntityError, match="not supported"):
        await box.fork("child")


async def test_a_command_that_is_late_brings_nothing_of_what_it_said(box):
    with pytest.raises(DaytonaProcessExecutionTimeoutError) as told:
        await box.process.exec("echo said; sleep 60", timeout=1)
    assert "said" not in str(told.value)


async def test_both_streams_of_a_command_come_as_one_text(box):
    answer = await box.process.exec("echo out; echo err >&2; printf '\\377'; exit 3")
    assert (answer.exit_code, answer.result) == (3, "out\nerr\n\ufffd")


async def test_files_are_kept_and_missing_ones_told(box):
    await box.fs.upload_files([FileUpload(b"a\0b", "/tmp/deep/er/a"), FileUpload(b"", "/tmp/b")])
    assert await box.fs.download_file("/tmp/deep/er/a") == b"a\0b"
    assert (await box.process.exec("stat -c %s /tmp/b")).result == "0\n"
    with pytest.raises(DaytonaFileNotFoundError):
        await box.fs.get_file_info("/tmp/no")


async def test_files_are_moved_and_given_another_mode(box):
    await box.fs.upload_file(b"#!/bin/sh\necho ran\n", "/tmp/tool")
    await box.fs.move_files("/tmp/tool", "/tmp/moved")
    await box.fs.set_file_permissions("/tmp/moved", mode="755")
    assert (await box.process.exec("/tmp/moved; ls /tmp/tool")).result.startswith("ran\n")
    assert [one.name for one in await box.fs.list_files("/tmp") if one.permissions == "0755"] == ["moved"]
    with pytest.raises(DaytonaFileNotFoundError):
        await box.fs.move_files("/tmp/no", "/tmp/where")


@pytest.mark.parametrize(
    "asked",
    [
        lambda box: box.fs.find_files("/tmp", "x"),
        lambda box: box.fs.search_files("/tmp", "*.py"),
        lambda box: box.fs.replace_in_files(["/tmp/x"], "a", "b"),
        lambda box: box.fs.set_file_permissions("/tmp", owner="root"),
        lambda box: box.git.status("/tmp"),
    ],
    ids=["find", "search", "replace", "owner", "git"],
)
async def test_what_it_does_not_speak_is_refused_and_is_no_missing_file(box, asked):
    with pytest.raises(DaytonaError, match="this server") as told:
        await asked(box)
    assert told.value.status_code == 501


async def test_a_message_over_64_kib_ends_a_terminals_connection(box):
    handle = await box.process.create_pty_session("t", lambda data: None)
    await handle.send_input(b"#" * 65537)
    await handle.wait()
    assert not handle.is_connected()
    await handle.disconnect()


async def test_a_terminal_goes_on_without_its_client_until_its_shell_ends(server, box):
    handle = await box.process.create_pty_session("t2", lambda data: None)
    await handle.disconnect()
    assert "t2" in server.world.box("strict").terminals
    again = server.world.box("strict").terminals["t2"]
    server.loop.call_soon_threadsafe(lambda: again.running.kill(group=True))
    await until(lambda: "t2" not in server.world.box("strict").terminals, "the terminal is gone")


async def test_a_session_is_one_shell_whose_commands_are_logged(box):
    await box.process.create_session("s")
    asked = SessionExecuteRequest(command="cd /tmp; KEPT=yes; echo out; echo err >&2")
    first = await box.process.execute_session_command("s", asked)
    second = await box.process.execute_session_command("s", SessionExecuteRequest(command="pwd; echo $KEPT; (exit 4)"))
    assert (first.exit_code, first.stdout, first.stderr) == (0, "out\n", "err\n")
    assert (second.exit_code, second.stdout) == (4, "/tmp\nyes\n")
    await box.process.delete_session("s")
    with pytest.raises(DaytonaNotFoundError):
        await box.process.get_session("s")


async def test_a_command_of_a_session_is_followed_and_takes_input(box):
    await box.process.create_session("f")
    asked = SessionExecuteRequest(command="echo ready; read x; echo got $x; echo err >&2", run_async=True)
    command = (await box.process.execute_session_command("f", asked)).cmd_id
    said = {"out": "", "err": ""}
    ready = asyncio.Event()

    def heard(name):
        def take(text):
            said[name] += text
            ready.set()

        return take

    following = asyncio.create_task(box.process.get_session_command_logs_async("f", command, heard("out"), heard("err")))
    await ready.wait()
    await box.process.send_session_command_input("f", command, "it\n")
    await following
    assert said == {"out": "ready\ngot it\n", "err": "err\n"}
    assert (await box.process.get_session_command("f", command)).exit_code == 0
