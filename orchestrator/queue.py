"""The queue. It knows the names of tasks, not their code, and carries nothing but ids of runs.

A message is only a nudge: the record says what there is to do, and a worker that gets the same nudge twice, or for a run that
another worker has, does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from orchestrator.errors import InfrastructureError

if TYPE_CHECKING:
    from celery import Celery

EXECUTE_RUN = "fanfold.execute_run"
"""Argument: the id of a run."""
QUEUE = "fanfold"
VISIBILITY_TIMEOUT = 3600
"""Seconds after which the broker shows a message again that a worker took and did not finish."""
LOOK_TIMEOUT = 2
"""Seconds to reach the broker for a look at the queue."""
SEND_RETRIES = {"max_retries": 3, "interval_start": 0.05, "interval_step": 0.2, "interval_max": 1.0}


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


def send_execute_run(app: Celery, run_id: str) -> None:
    """Nudge a worker to execute a run. Raises `InfrastructureError` when the broker is not there."""
    options: dict[str, Any] = {"retry": True, "retry_policy": SEND_RETRIES}
    with _translated():
        app.send_task(EXECUTE_RUN, args=(run_id,), queue=QUEUE, **options)


def nothing_queued(app: Celery) -> bool:
    """Whether no nudge waits for a worker. Raises `InfrastructureError` when the broker is not there."""
    from kombu.exceptions import ChannelError

    with _translated(), app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, timeout=LOOK_TIMEOUT)
        channel: Any = connection.default_channel
        try:
            return int(channel.queue_declare(QUEUE, passive=True).message_count) == 0
        except ChannelError:  # a queue without messages is none
            return True


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as exc:  # kombu lets errors of every transport through
        if not _is_connection_error(exc):
            raise
        raise InfrastructureError(f"the broker does not answer ({exc}); check FANFOLD_REDIS_URL or `fanfold doctor`") from exc


def _is_connection_error(exc: Exception) -> bool:
    from kombu.exceptions import OperationalError

    return isinstance(exc, OperationalError | OSError)
