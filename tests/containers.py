"""A PostgreSQL and a Redis in containers, by testcontainers; scripts/service-images.sh makes their images."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import URL
from sqlalchemy.exc import OperationalError

from tests.conftest import ENGINE_SECONDS, engine_problem, missing
from tests.servers import PASSWORD, POLL, Servers, administer, await_redis, redis_address
from tests.services import DEADLINE, free_port

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

POSTGRES = "fanfold-test/postgres:latest"
REDIS = "fanfold-test/redis:latest"
POSTGRES_PORT = 5432
REDIS_PORT = 6379
HOST = "127.0.0.1"

# Its data are in the container, and outlive its end by force.
_SERVE = """set -eu
if ! test -d /data/cluster; then
    printf %s "$PASSWORD" >/data/password
    initdb -D /data/new -U fanfold --auth-local=trust --auth-host=scram-sha-256 --pwfile=/data/password \
        --encoding=UTF8 --locale=C --no-sync
    echo 'host all all all scram-sha-256' >>/data/new/pg_hba.conf
    mv /data/new /data/cluster
fi
exec postgres -D /data/cluster -c 'listen_addresses=*' -c unix_socket_directories=/tmp -c fsync=off -c max_connections=200
"""


@contextmanager
def servers_in_containers() -> Iterator[Servers]:
    """Both, for as long as it lasts. Skips or fails the test without an engine or the images."""
    if problem := engine_problem() or _image_problem():
        missing(problem)
    with ExitStack() as stack:
        database_url, lose_postgres = _postgres(stack)
        url, lose_redis = _redis(stack)
        yield Servers(database_url, url, lose_postgres, lose_redis)


def _image_problem() -> str | None:
    done = subprocess.run(
        ["docker", "image", "inspect", "--format", "{{.Id}}", POSTGRES, REDIS],
        capture_output=True, text=True, check=False, timeout=ENGINE_SECONDS,
    )  # fmt: skip
    return f"An image is missing: {done.stderr.strip()}." if done.returncode else None


def _postgres(stack: ExitStack) -> tuple[str, Callable[[], None]]:
    port = free_port()
    container = _container(stack, POSTGRES, POSTGRES_PORT, port, ["sh", "-c", _SERVE], PASSWORD=PASSWORD)
    address = URL.create("postgresql", "fanfold", PASSWORD, HOST, port, "postgres").render_as_string(hide_password=False)

    def ready() -> bool:
        try:
            administer(address, "SELECT 1")
        except OperationalError:
            return False
        return True

    _wait_until(ready, container)
    return address, lambda: _kill_and_start(container, ready)


def _redis(stack: ExitStack) -> tuple[str, Callable[[], None]]:
    port = free_port()
    command = ["redis-server", "--bind", "0.0.0.0", "--save", "", "--requirepass", PASSWORD]
    container = _container(stack, REDIS, REDIS_PORT, port, command)

    def ready() -> bool:
        await_redis(redis_address(port))
        return True

    _wait_until(ready, container)
    return redis_address(port), lambda: _kill_and_start(container, ready)


def _container(
    stack: ExitStack, image: str, inner: int, port: int, command: list[str], **environ: str
) -> DockerContainer:
    """A container that runs until the stack is closed. Its port is the same after a restart."""
    with pytest.MonkeyPatch.context() as patch:
        # Its own reaper is an image that would have to be pulled.
        patch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer

        container = DockerContainer(image, env=environ, command=command)  # type: ignore[arg-type]
        container.ports = {str(inner): (HOST, port)}  # type: ignore[dict-item]
        assert testcontainers_config.ryuk_disabled
        return stack.enter_context(container)


def _kill_and_start(container: DockerContainer, ready: Callable[[], bool]) -> None:
    inner = container.get_wrapped_container()
    inner.kill()
    inner.wait(timeout=DEADLINE)
    inner.start()
    _wait_until(ready, container)


def _wait_until(ready: Callable[[], bool], container: DockerContainer) -> None:
    deadline = time.monotonic() + DEADLINE
    while not ready():
        inner = container.get_wrapped_container()
        inner.reload()
        if inner.status == "exited" or time.monotonic() > deadline:
            raise AssertionError(f"a server did not come up ({inner.status}):\n{inner.logs().decode(errors='replace')}")
        time.sleep(POLL)
