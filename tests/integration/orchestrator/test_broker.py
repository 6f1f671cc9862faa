"""One embedded broker for all processes of a home, private, and gone with the last worker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from orchestrator.broker import MAX_SOCKET_PATH, Broker
from orchestrator.errors import InfrastructureError
from orchestrator.queue import make_app, send_execute_run
from orchestrator.settings import Settings


@pytest.fixture
def broker() -> Iterator[Broker]:
    home = Path(tempfile.mkdtemp(prefix="ff-"))
    made = Broker(Settings(home=home))
    yield made
    made.stop()
    shutil.rmtree(home)


def pid_of(broker: Broker) -> int:
    with redis.Redis(unix_socket_path=str(broker.socket)) as client:
        return int(client.info("server")["process_id"])


def test_it_listens_on_a_private_socket_and_on_no_port(broker: Broker) -> None:
    broker.ensure()
    with redis.Redis(unix_socket_path=str(broker.socket)) as client:
        config = client.config_get("port", "appendonly", "save")
    assert (config["port"], config["appendonly"], config["save"]) == ("0", "no", "")
    assert broker.socket.parent.stat().st_mode & 0o077 == 0
    assert broker.socket.stat().st_mode & 0o077 == 0


def test_processes_that_need_it_at_once_share_one(broker: Broker) -> None:
    script = (
        "from orchestrator.broker import Broker\nfrom orchestrator.settings import load_settings\n"
        "import redis\nbroker = Broker(load_settings())\nbroker.ensure()\n"
        "with redis.Redis(unix_socket_path=str(broker.socket)) as client: print(client.info('server')['process_id'])"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FANFOLD_")}
    environ["FANFOLD_HOME"] = str(broker.socket.parent.parent)
    processes = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", script], stdout=subprocess.PIPE, text=True, env=environ)
        for _ in range(3)
    ]
    pids = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert pids == {str(pid_of(broker))}


def test_it_outlives_a_kill_by_being_started_again(broker: Broker) -> None:
    broker.ensure()
    first = pid_of(broker)
    os.kill(first, 9)
    broker.ensure(surely=True)
    while not broker.answers():
        broker.ensure()
    assert pid_of(broker) != first


def test_it_is_stopped_unless_it_is_needed(broker: Broker) -> None:
    broker.ensure()
    broker.stop(unless=lambda: True)
    assert broker.answers()
    broker.stop()
    assert not broker.answers()
    broker.stop()


def test_a_home_with_a_long_name_gets_a_private_socket_elsewhere(tmp_path: Path) -> None:
    broker = Broker(Settings(home=tmp_path / ("x" * MAX_SOCKET_PATH)))
    try:
        broker.ensure()
        assert broker.answers()
        assert broker.socket.parent.stat().st_mode & 0o777 == 0o700
    finally:
        broker.stop()
        shutil.rmtree(broker.socket.parent)


def test_a_socket_folder_that_others_could_enter_is_refused(tmp_path: Path) -> None:
    broker = Broker(Settings(home=tmp_path / ("y" * MAX_SOCKET_PATH)))
    broker.socket.parent.mkdir(mode=0o755)
    try:
        with pytest.raises(InfrastructureError, match="must be this user's own folder"):
            broker.ensure()
    finally:
        broker.socket.parent.rmdir()


def test_a_broker_that_is_not_there_is_told_within_seconds(tmp_path: Path) -> None:
    app = make_app(f"redis+socket://{tmp_path}/nothing.sock")
    with pytest.raises(InfrastructureError, match="the broker does not answer"):
        send_execute_run(app, "run-1")
    app.close()


def test_the_operators_own_broker_is_left_alone(tmp_path: Path) -> None:
    broker = Broker(Settings(home=tmp_path, redis_url="redis://localhost:1/0"))
    broker.ensure()
    broker.stop()
    assert broker.url == "redis://localhost:1/0"
    assert list(tmp_path.iterdir()) == []
