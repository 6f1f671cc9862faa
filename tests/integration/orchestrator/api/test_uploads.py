"""What is sent for a run is checked as much as what is taken from this machine, and a task names nothing else."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.service import Service
from orchestrator.settings import Settings
from tests.served import Api, serving

SCRIPT = """
turns:
  - text: done
"""


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def member(name: str, data: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def upload(client: httpx.Client, content: bytes | Iterator[bytes]) -> str:
    answer = client.post("/v1/uploads", content=content)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def order(client: httpx.Client, archive: bytes, **task: Any) -> httpx.Response:
    upload_id = upload(client, archive)
    return client.post("/v1/runs", json={"task": {"command": "true", **task}, "uploads": {"inputs": upload_id}})


def uploaded(settings: Settings) -> list[Path]:
    return list(settings.uploads_dir.glob("*/*"))


def test_an_upload_is_told_by_its_hash(client: httpx.Client) -> None:
    answer = client.post("/v1/uploads", content=b"some bytes").json()
    assert (answer["size"], answer["sha256"]) == (10, hashlib.sha256(b"some bytes").hexdigest())


def test_nothing_is_no_upload(client: httpx.Client, settings: Settings) -> None:
    before = len(uploaded(settings))
    assert client.post("/v1/uploads", content=b"").status_code == 422
    assert len(uploaded(settings)) == before


def test_an_uploaded_archive_is_the_workspace(client: httpx.Client, worker: None) -> None:
    archive = tar(member("src/a.txt", b"hello"), member("node_modules/b", b"x"))
    command = 'test "$(cat src/a.txt)" = hello && ! test -e node_modules'
    answer = order(client, archive, command=command, inputs={"exclude": ["node_modules"]})
    assert answer.status_code == 201, answer.text
    run = client.get(f"/v1/runs/{answer.json()['id']}/join").json()
    assert run["status"] == "success", run
    again = client.post(f"/v1/runs/{run['id']}/retry").json()
    assert client.get(f"/v1/runs/{again['id']}/join").json()["status"] == "success"


def test_an_upload_is_streamed(client: httpx.Client) -> None:
    answer = client.post("/v1/uploads", content=(b"x" * 1024 for _ in range(3000)))
    assert answer.json()["size"] == 3000 * 1024


def test_an_uploaded_script_is_the_model(client: httpx.Client, worker: None) -> None:
    model = upload(client, SCRIPT.encode())
    task = {"agent": {"prompt": "go", "model": "scripted:any/name.yaml"}}
    answer = client.post("/v1/runs", json={"task": task, "uploads": {"model": model}})
    assert answer.status_code == 201, answer.text
    run = client.get(f"/v1/runs/{answer.json()['id']}/join").json()
    assert run["status"] == "success", run
    again = client.post(f"/v1/runs/{run['id']}/retry").json()
    assert client.get(f"/v1/runs/{again['id']}/join").json()["status"] == "success"


ESCAPES = {
    "a path that leads out": tar(member("../escaped", b"x")),
    "a path from the root": tar(member("/etc/escaped", b"x")),
    "a path that leads out on its way": tar(member("a/../../escaped", b"x")),
    "a file through a link": tar(member("out", type=tarfile.SYMTYPE, linkname="/tmp"), member("out/escaped", b"x")),
    "a hard link out": tar(member("hard", type=tarfile.LNKTYPE, linkname="../../etc/passwd")),
    "a hard link to the root": tar(member("hard", type=tarfile.LNKTYPE, linkname="/etc/passwd")),
    "a device": tar(member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "a pipe": tar(member("fifo", type=tarfile.FIFOTYPE)),
    "no archive at all": b"this is no archive",
}


@pytest.mark.parametrize("archive", ESCAPES.values(), ids=ESCAPES)
def test_an_archive_that_is_not_safe_is_refused(client: httpx.Client, settings: Settings, archive: bytes) -> None:
    before = sorted(settings.runs_dir.glob("*"))
    answer = order(client, archive)
    assert (answer.status_code, answer.json()["detail"][:6]) == (422, "inputs"), answer.text
    assert sorted(settings.runs_dir.glob("*")) == before
    assert not list(settings.home.rglob("escaped"))


def test_a_zip_that_leads_out_is_refused(client: httpx.Client) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("../escaped", "x")
    assert order(client, file.getvalue()).status_code == 422


def test_a_bomb_is_refused_before_it_goes_off(client: httpx.Client, settings: Settings) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive, archive.open("zeros", "w") as entry:
        for _ in range(1200):
            entry.write(bytes(1024**2))
    answer = order(client, file.getvalue())
    assert answer.status_code == 422, answer.text
    assert not [path for path in settings.runs_dir.rglob("*") if path.is_file() and path.stat().st_size > 1024**3]


def test_more_than_the_cap_is_refused_and_not_kept(other_settings: Callable[..., Settings]) -> None:
    settings = other_settings(MAX_UPLOAD="1MiB")
    with Service(settings) as service, serving(service) as api:
        client = api.client()
        told = client.post("/v1/uploads", content=bytes(1024**2 + 1))
        assert (told.status_code, told.headers["content-type"]) == (413, "application/problem+json")
        untold = client.post("/v1/uploads", content=(bytes(64 * 1024) for _ in range(17)))
        assert untold.status_code == 413
        assert client.post("/v1/uploads", content=bytes(1024**2)).status_code == 201
        assert len(uploaded(settings)) == 1


def test_an_upload_that_breaks_off_is_not_kept(
    other_settings: Callable[..., Settings], until: Callable[[Callable[[], object], str], None]
) -> None:
    import socket

    settings = other_settings()
    with Service(settings) as service, serving(service) as api:
        host, _, port = api.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as raw:
            head = f"POST /v1/uploads HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\nContent-Length: 5000000\r\n\r\n"
            raw.sendall(head.encode() + bytes(2_000_000))
            until(lambda: [path for path in uploaded(settings) if path.stat().st_size], "the upload has begun")
        until(lambda: not uploaded(settings), "what was sent of it is gone")


def test_old_uploads_are_swept(other_settings: Callable[..., Settings]) -> None:
    from datetime import timedelta

    from sqlalchemy import update

    from orchestrator.runs import service_tables as s
    from orchestrator.runs.database import now
    from orchestrator.runs.schema import open_database

    settings = other_settings()
    with Service(settings) as service, serving(service) as api:
        client = api.client()
        old, fresh = upload(client, b"old"), upload(client, b"fresh")
        orphan = service.uploads.folder / "upl-000000000000"
        orphan.write_bytes(b"of a process that died")
        os.utime(orphan, (0, 0))
        engine = open_database(settings.database, settings.home / "lock")
        with engine.begin() as connection:
            values = {"created_at": now() - timedelta(hours=25)}
            connection.execute(update(s.uploads).where(s.uploads.c.id == old).values(values))
        engine.dispose()
        service.uploads.sweep()
        assert [path.name for path in uploaded(settings)] == [fresh]
        assert client.post("/v1/runs", json={"task": {"command": "true"}, "uploads": {"inputs": old}}).status_code == 404


def test_anothers_upload_is_not_there(api: Api, client: httpx.Client) -> None:
    theirs = upload(api.of("acme"), tar(member("secret", b"x")))
    assert client.post("/v1/runs", json={"task": {"command": "true"}, "uploads": {"inputs": theirs}}).status_code == 404
    model = {"agent": {"prompt": "x", "model": "scripted:x"}}
    assert client.post("/v1/runs", json={"task": model, "uploads": {"model": theirs}}).status_code == 404


AGENT = {"prompt": "x", "model": "scripted:s.yaml"}
REFUSED: dict[str, dict[str, Any]] = {
    "a folder": {"task": {"command": "true", "inputs": {"path": "."}}},
    "a folder from the root": {"task": {"command": "true", "inputs": {"path": "/etc"}}},
    "an archive": {"task": {"command": "true", "inputs": {"archive": "a.tar"}}},
    "an upload by its name alone": {"task": {"command": "true", "inputs": {"archive": "upl-000000000000"}}},
    "a repository": {"task": {"command": "true", "inputs": {"git": {"url": "https://example.invalid/a"}}}},
    "a repository by its path": {"task": {"command": "true", "inputs": {"git": {"url": "../repository"}}}},
    "a repository by its file": {"task": {"command": "true", "inputs": {"git": {"url": "file:///srv/a"}}}},
    "a repository by a command": {"task": {"command": "true", "inputs": {"git": {"url": "ext::sh -c id"}}}},
    "a script": {"task": {"agent": AGENT}},
    "a cassette": {"task": {"agent": {**AGENT, "model": "replay:/etc/passwd"}}},
    "a script to record": {"task": {"agent": {**AGENT, "model": "record:c.yaml=scripted:/etc/passwd"}}},
    "a cassette outside": {"task": {"agent": {**AGENT, "model": "record:/etc/c.yaml=scripted:x"}}},
    "inputs beside an upload": {
        "task": {"command": "true", "inputs": {"path": "x"}}, "uploads": {"inputs": "upl-000000000000"}
    },
    "a model for a command": {"task": {"command": "true"}, "uploads": {"model": "upl-000000000000"}},
    "a model that has no file": {
        "task": {"agent": {**AGENT, "model": "openai:x"}}, "uploads": {"model": "upl-000000000000"}
    },
    "the placeholder": {"task": {"command": "true", "inputs": {"archive": "upload"}}},
    "a path as an upload": {"task": {"command": "true"}, "uploads": {"inputs": "../../etc/passwd"}},
    "a mount": {"task": {"command": "true", "sandbox": {"mounts": [{"source": "/etc", "target": "/x"}]}}},
    "a strategy without a thread": {"task": {"command": "true"}, "multitask_strategy": "reject"},
    "a label that cannot be": {"task": {"command": "true"}, "labels": {"Not A Label": "x"}},
    "a priority that cannot be": {"task": {"command": "true"}, "priority": 101},
    "an unknown key": {"task": {"command": "true"}, "tenant": "acme"},
}  # fmt: skip


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_a_task_names_no_files_of_the_server(client: httpx.Client, settings: Settings, body: dict[str, Any]) -> None:
    before = sorted(settings.runs_dir.glob("*"))
    answer = client.post("/v1/runs", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json"), answer.text
    assert sorted(settings.runs_dir.glob("*")) == before


def test_a_repository_is_fetched_where_the_operator_allows_it(other_settings: Callable[..., Settings]) -> None:
    with Service(other_settings(API_GIT="true")) as service, serving(service) as api:
        client = api.client()
        by_path = client.post("/v1/runs", json={"task": {"command": "true", "inputs": {"git": {"url": "../repository"}}}})
        assert by_path.status_code == 422
        task = {"command": "true", "inputs": {"git": {"url": "http://127.0.0.1:9/nothing.git"}}}
        answer = client.post("/v1/runs", json={"task": task})
        assert answer.status_code in (422, 503)
        assert "FANFOLD_API_GIT" not in answer.text
