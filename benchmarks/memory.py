"""What an idle sandbox holds of the machine's memory, beside a container that only sleeps."""

from __future__ import annotations

import docker

from benchmarks.measure import Config, Row

KIB_PER_MIB = 1024


async def rows(config: Config, sandbox: str) -> list[Row]:
    """One row. The sandbox's client is attached: its bridge process counts."""
    client = docker.from_env()
    try:
        sleeper = client.containers.create(config.image, ["sleep", "infinity"], init=True, network_mode="none")
        try:
            sleeper.start()
            return [Row("memory, idle and attached", "MiB", _resident(client, sandbox), _resident(client, str(sleeper.id)))]
        finally:
            sleeper.remove(force=True)
    finally:
        client.close()


def _resident(client: docker.DockerClient, container: str) -> float:
    """The resident memory of all processes of a container, in MiB; what they share counts for each."""
    listing = client.containers.get(container).top(ps_args="-eo pid,rss")
    column = listing["Titles"].index("RSS")
    return sum(int(process[column]) for process in listing["Processes"]) / KIB_PER_MIB
