"""The image's health check: asks the container's first process, in the way that its role has. Exit 0: it is well.

An API answers `/healthz` at its port; a worker and a controller serve metrics at FANFOLD_METRICS_ADDR. What has no way of its
own (a migration, a single command) is well as long as it runs.
"""

import http.client
import itertools
import os
import sys
from pathlib import Path

SECONDS = 3.0
"""For an answer; the image's HEALTHCHECK waits a little longer."""
API_PORT = 8000
SERVING = ("api", "up", "orchestrator.up")
MEASURED = ("worker", "orchestrator.worker", "controller")


def question(arguments, environ):
    """`(host, port, path)` of what is to be asked of a process with these arguments; None where there is nothing to ask."""
    if any(role in arguments for role in SERVING):
        return _option(arguments, ("--host",), "127.0.0.1"), int(_option(arguments, ("--port", "-p"), API_PORT)), "/healthz"
    address = environ.get("FANFOLD_METRICS_ADDR")
    if address and any(role in arguments for role in MEASURED):
        host, _, port = address.rpartition(":")
        return host.strip("[]"), int(port), "/metrics"
    return None


def _option(arguments, names, default):
    for before, value in itertools.pairwise(arguments):
        if before in names:
            return value
    for one in arguments:
        name, equals, value = one.partition("=")
        if equals and name in names:
            return value
    return default


def ask(host, port, path):
    """What is wrong with the answer; empty when nothing is."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - it binds to nothing
    connection = http.client.HTTPConnection(everywhere.get(host, host), port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except OSError as exc:
        return f"no answer: {exc}"
    finally:
        connection.close()
    return "" if status == 200 else f"the answer is {status}"


def main():
    """Ask, and say what came of it."""
    arguments = Path("/proc/1/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    asked = question(arguments, os.environ)
    if asked is None:
        sys.stdout.write("runs\n")
        return 0
    problem = ask(*asked)
    sys.stdout.write("http://{}:{}{}: {}\n".format(*asked, problem or "well"))
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
