"""The services behind tests: an S3 server in this process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from s3fs import S3FileSystem

from tests.conftest import missing


class S3Server:
    """A server at `endpoint`, and a client of its own."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.filesystem = S3FileSystem(
            key="test", secret="test", endpoint_url=endpoint, use_listings_cache=False, skip_instance_cache=True
        )
        self.environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        """What a process must have in its environment to use it."""

    def new_bucket(self) -> str:
        """A bucket that nobody else has."""
        bucket = f"bucket-{uuid.uuid4().hex}"
        self.filesystem.mkdir(bucket)
        return bucket


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """An S3 server of moto's, on a free port of the loopback."""
    try:
        from moto.server import ThreadedMotoServer
    except ImportError:
        missing("There is no moto[server].")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield S3Server(f"http://{host}:{port}")
    finally:
        server.stop()
