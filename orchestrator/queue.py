"""The queue. It knows the names of tasks, not their code, and carries nothing but ids of runs.

A message is only a nudge: the record says what there is to do, and a worker that gets the same nudge twice, or for a run that
another worker has, does nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from orchestrator.errors import BadInput, InfrastructureError

if TYPE_CHECKING:
    from celery import Celery

EXECUTE_RUN = "fanfold.execute_run"
"""Argument: the id of a run."""
QUEUE = "fanfold"
"""Where runs go that no route of the policy sends elsewhere."""
VISIBILITY_TIMEOUT = 3600
"""Seconds after which the broker shows a message again that a worker took and did not finish."""
LOOK_TIMEOUT = 2
"""Seconds to reach the broker for a look at the queue."""
SEND_RETRIES = {"max_retries": 3, "interval_start": 0.05, "interval_step": 0.2, "interval_max": 1.0}


_QUEUE_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,31}")


def check_queue(name: str) -> str:
    """The name of a queue. Raises `ValueError` when it cannot be one."""
    if not _QUEUE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a queue: at most 32 lower-case letters, digits, and any of . _ -")
    return name


def queue_names(text: str) -> tuple[str, ...]:
    """The names in `a,b`. Raises `BadInput`."""
    try:
        return tuple(sorted({check_queue(name.strip()) for name in text.split(",")}))
    except ValueError as exc:
        raise BadInput(f"--queues: {exc}") from exc


def make_app(broker_url: str) -> Celery:
    """The Celery application."""
    from celery import Celery

    app = Celery("fanfold", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_default_queue=QUEUE,
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=5,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_TIMEOUT,
            "unacked_restore_interval": 2,
            "unacked_restore_throttle": 1,
        },
    )
    return app


def send_execute_run(app: Celery, run_id: str, queue: str = QUEUE) -> None:
    """Nudge a worker of a queue to execute a run. Raises `InfrastructureError` when the broker is not there."""
    options: dict[str, Any] = {"retry": True, "retry_policy": SEND_RETRIES}
    with translated():
        app.send_task(EXECUTE_RUN, args=(run_id,), queue=queue, **options)


def nothing_queued(app: Celery, queues: Iterable[str] = (QUEUE,)) -> bool:
    """Whether no nudge waits for a worker. Raises `InfrastructureError` when the broker is not there."""
    with translated(), app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, timeout=LOOK_TIMEOUT)
        channel: Any = connection.default_channel
        return not any(_length(channel, queue) for queue in queues)


def _length(channel: Any, queue: str) -> int:
    from kombu.exceptions import ChannelError

    try:
        return int(channel.queue_declare(queue, passive=True).message_count)
    except ChannelError:  # a queue without messages is none
        return 0


@contextmanager
def translated() -> Iterator[None]:
    """What a broker raises as an `InfrastructureError` that says what to look at."""
    try:
        yield
    except Exception as exc:  # kombu lets errors of every transport through
        if not _is_connection_error(exc):
            raise
        raise InfrastructureError(f"the broker does not answer ({exc}); check FANFOLD_REDIS_URL or `fanfold doctor`") from exc


def _is_connection_error(exc: Exception) -> bool:
    from kombu.exceptions import OperationalError
    from redis.exceptions import RedisError  # also what it refuses: the number of a database, or more when it is full

    return isinstance(exc, OperationalError | OSError | RedisError)
