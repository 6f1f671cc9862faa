"""docs/compose.md is typed from its top to its end, with Compose 2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from tests.acceptance.conftest import Fanfold
from tests.compose.pages import IMAGE, sections, type_in
from tests.compose.stack import READY_SECONDS, Stack, programs, stack
from tests.images.built import docker

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

PAGE = sections("compose.md")


@pytest.fixture(scope="module")
def installed() -> Iterator[Stack]:
    with stack(programs()[1]) as made:
        type_in(made, PAGE["Install"])
        made.await_ready()
        yield made


@pytest.fixture
def fanfold(installed: Stack, tmp_path: Path) -> Fanfold:
    environ = {"FANFOLD_URL": installed.url, "FANFOLD_API_KEY": installed.new_key(), "NO_PROXY": "*"}
    return Fanfold(tmp_path / "home", environ)


def moment(container: str, which: str) -> datetime:
    """When a container started, or finished."""
    told = docker("inspect", "--format", f"{{{{.State.{which}}}}}", container).stdout.strip()
    return datetime.fromisoformat(f"{told[:19]}+00:00")


@contextmanager
def another_version(image: str, name: str, change: str = "LABEL version=newer") -> Iterator[None]:
    """Another image that does the same but for a change, for as long as it lasts."""
    made = docker("create", image).stdout.strip()
    docker("commit", "--change", change, made, name)
    docker("rm", made)
    try:
        yield
    finally:
        docker("image", "rm", "--force", name)


def test_the_page_has_these_sections() -> None:
    assert list(PAGE) == ["Install", "Watch", "More workers", "Upgrade", "Take it down"]


def test_a_task_that_names_no_provider_runs(installed: Stack, fanfold: Fanfold) -> None:
    done = fanfold("exec", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr + installed.logs()
    assert json.loads(fanfold("runs", "ls", "-o", "json").stdout)[0]["provider"] == "docker"


def test_what_is_secret_is_for_its_owner_alone(installed: Stack) -> None:
    assert (installed.folder / ".env").stat().st_mode & 0o077 == 0


def test_processes_are_nobody_special(installed: Stack) -> None:
    users = {"api": 10001, "worker": 10001, "controller": 10001, "postgresql": 999, "redis": 999, "prometheus": 65534}
    for service, user in users.items():
        status = docker("exec", installed.container(service), "cat", "/proc/1/status").stdout
        found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert found["Uid"].split() == [str(user)] * 4, service
        assert (int(found["CapEff"], 16), int(found["CapBnd"], 16), found["NoNewPrivs"]) == (0, 0, "1"), service
        written = docker("exec", installed.container(service), "sh", "-c", "echo x >/usr/x", check=False)
        assert "Read-only file system" in written.stderr, service


def test_the_database_and_the_broker_have_no_way_out_and_a_password(installed: Stack) -> None:
    for service in ("postgresql", "redis"):
        names = docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", installed.container(service)).stdout
        assert list(json.loads(names)) == [f"{installed.project}_data"]
    assert docker("network", "inspect", "--format", "{{.Internal}}", f"{installed.project}_data").stdout.strip() == "true"
    assert "NOAUTH" in docker("exec", installed.container("redis"), "valkey-cli", "ping").stdout
    psql = ["psql", "--host", "postgresql", "--username", "fanfold", "--no-password", "--command", "SELECT 1"]
    assert "no password supplied" in docker("exec", installed.container("postgresql"), *psql, check=False).stderr


def test_every_role_is_scraped_and_well(installed: Stack) -> None:
    roles = ("api", "controller", "worker")

    def well() -> bool:
        containers = [installed.container(one) for one in roles]
        found = set(docker("inspect", "--format", "{{.State.Health.Status}}", *containers).stdout.split())
        query = ["promtool", "query", "instant", "http://127.0.0.1:9090", "max by (job) (up)"]
        told = docker("exec", installed.container("prometheus"), *query).stdout
        return found == {"healthy"} and all(f'{{job="fanfold-{one}"}} => 1' in told for one in roles)

    installed.wait(well, "all are healthy, and Prometheus has asked them", READY_SECONDS)


def test_it_is_watched_as_the_page_says(installed: Stack) -> None:
    type_in(installed, PAGE["Watch"])


def test_workers_are_added_as_the_page_says(installed: Stack, fanfold: Fanfold) -> None:
    type_in(installed, PAGE["More workers"])
    installed.wait(lambda: "2 workers" in fanfold("doctor").stdout, "two workers are alive", READY_SECONDS)


def test_an_upgrade_whose_migration_fails_changes_nothing(installed: Stack, fanfold: Fanfold) -> None:
    before = {one: installed.container(one) for one in ("api", "controller", "worker")}
    environ, written = dict(installed.environ), (installed.folder / ".env").read_text()
    broken = f"{installed.image}-broken"
    with another_version(installed.image, broken, 'ENTRYPOINT ["false"]'):
        del installed.environ["FANFOLD_IMAGE"]
        with pytest.raises(AssertionError, match="migration"):
            type_in(installed, PAGE["Upgrade"].replace(IMAGE, broken))
    installed.environ.update(environ)
    (installed.folder / ".env").write_text(written)
    assert {one: installed.container(one) for one in before} == before
    assert fanfold("exec", "--", "echo", "on").stdout == "on\n"


def test_an_upgrade_migrates_first_and_loses_nothing(installed: Stack, fanfold: Fanfold) -> None:
    going = fanfold("exec", "--", "true")
    assert going.returncode == 0
    before = {one: installed.container(one) for one in ("migration", "api", "controller", "worker")}
    newer = f"{installed.image}-newer"
    with another_version(installed.image, newer):
        del installed.environ["FANFOLD_IMAGE"]
        type_in(installed, PAGE["Upgrade"].replace(IMAGE, newer))
        installed.await_ready()
        migrated = moment(installed.container("migration"), "FinishedAt")
        for service, old in before.items():
            assert installed.container(service) != old, f"{service} was not replaced"
            if service != "migration":
                assert moment(installed.container(service), "StartedAt") >= migrated, service
        assert json.loads(fanfold("runs", "ls", "-o", "json").stdout), "the record is the same"
        assert fanfold("exec", "--", "echo", "again").stdout == "again\n"

        type_in(installed, PAGE["Take it down"])
        left = installed.leftovers()
        assert (left["containers"], left["networks"], left["sandboxes"]) == ([], [], [])
        assert left["volumes"], "they stay until somebody says so"
        installed.up()
        assert fanfold("exec", "--", "echo", "still").stdout == "still\n"
        installed.down()
        assert not any(installed.leftovers().values())
