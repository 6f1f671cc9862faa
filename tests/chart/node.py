"""A node for the chart's pods where there is no cluster: each container is run by Docker, with what its pod says of it.

Of Kubernetes it does what a process can notice: its user and groups, a read-only root, no capabilities, volumes with the owners
and modes that a kubelet gives them, variables, arguments, names of Services, probes, and the time to end. The image of the
control plane is this checkout's; instead of the servers' images, which are not here, it takes those of the tests; and for the
engine this machine's, behind TLS with the certificates of the chart.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import typer

from tests.chart.charts import ROOT, Document, Rendered, Workload, environment
from tests.conftest import missing
from tests.images.built import PLAN, build_all, docker

BASE, POSTGRES, REDIS = "fanfold-test/base:latest", "fanfold-test/postgres:latest", "fanfold-test/redis:latest"
ENGINE = "/var/run/docker.sock"
SITE = Path(typer.__file__).parents[1]
SECONDS = 120
"""For a pod to be ready."""
POLL = 0.1
PROBE_SECONDS = 5

VALKEY = '#!/bin/sh\nexec redis-server "$@"\n'
CLUSTER = r"""set -eu
initdb -D /data/cluster -U fanfold --auth-local=trust --auth-host=scram-sha-256 --pwfile="$POSTGRES_PASSWORD_FILE" \
    --encoding=UTF8 --locale=C --no-sync
echo 'host all all all scram-sha-256' >>/data/cluster/pg_hba.conf
postgres -D /data/cluster -c unix_socket_directories=/tmp -c listen_addresses= &
first=$!
until createdb -h /tmp -U fanfold "$POSTGRES_DB"; do sleep 0.1; done
kill "$first"; wait "$first" || true
exec postgres -D /data/cluster -c 'listen_addresses=*' -c unix_socket_directories=/tmp -c fsync=off
"""
"""What the entry point of PostgreSQL's image does with these variables."""


class Node:
    """Runs pods of a release, in a network of its own."""

    def __init__(self, rendered: Rendered, folder: Path) -> None:
        self._rendered = rendered
        self._folder = folder
        self._id = f"ff-chart-{uuid.uuid4().hex[:8]}"
        self._python = Path(sys.executable).resolve().name
        (folder / "valkey-server").write_text(VALKEY)
        (folder / "valkey-server").chmod(0o755)

    def __enter__(self) -> Node:
        docker("network", "create", self._id)
        return self

    def __exit__(self, *exc: object) -> None:
        left = docker("ps", "-aq", "--filter", f"label={self._id}").stdout.split()
        if left:
            docker("rm", "-f", "-v", *left)
        docker("network", "rm", self._id)

    def start(self, component: str) -> str:
        """Start a component's pod; the id of its container."""
        workload = self._rendered.workload(component)
        container = workload.containers[0]
        options = ["--label", self._id, "--network", self._id, "--network-alias", workload.name]
        options += [*self._security(workload, container), *self._mounts(workload, container), *self._resources(container)]
        for name, value in environment(self._rendered, container).items():
            options += ["--env", f"{name}={value}"]
        image, command = self._program(component, container)
        return docker("run", "--detach", *options, "--entrypoint", command[0], image, *command[1:]).stdout.strip()

    def _program(self, component: str, container: Document) -> tuple[str, list[str]]:
        if component == "postgresql":
            return POSTGRES, ["sh", "-c", CLUSTER]
        if component == "engine":
            return BASE, ["/opt/python/bin/" + self._python, "-m", "tests.tlsproxy", "/certs", "0.0.0.0", "2376"]
        return REDIS if component == "redis" else PLAN.image("controlplane"), [*container["command"], *container["args"]]

    def _security(self, workload: Workload, container: Document) -> list[str]:
        if workload.component == "engine":
            return ["--volume", f"{ENGINE}:{ENGINE}"]  # it is root there, as this one is
        pod, own = workload.spec["securityContext"], container["securityContext"]
        assert own["readOnlyRootFilesystem"] is True
        assert own["allowPrivilegeEscalation"] is False
        options = ["--read-only", "--security-opt", "no-new-privileges", "--group-add", str(pod["fsGroup"])]
        options += [option for name in own["capabilities"]["drop"] for option in ("--cap-drop", name)]
        if workload.component == "postgresql":
            return options  # the test image knows the user by another number than the real one
        return [*options, "--user", f"{pod['runAsUser']}:{pod['runAsGroup']}"]

    def _resources(self, container: Document) -> list[str]:
        memory = container["resources"]["limits"]["memory"]
        return ["--memory", memory.replace("Gi", "g").replace("Mi", "m")]

    def _mounts(self, workload: Workload, container: Document) -> list[str]:
        group = workload.spec.get("securityContext", {}).get("fsGroup", 0)
        sources, options = {}, []
        if workload.component == "engine":
            sources = {"/opt/python": Path(sys.base_prefix), "/opt/packages": SITE, "/opt/fanfold": ROOT}
            options += ["--env", "PYTHONPATH=/opt/fanfold:/opt/packages", "--env", "PYTHONDONTWRITEBYTECODE=1"]
            options += ["--env", "LD_LIBRARY_PATH=/opt/python/lib"]
        elif workload.component == "redis":
            sources = {"/usr/local/bin/valkey-server": self._folder / "valkey-server"}
        options += [option for target, source in sources.items() for option in ("--volume", f"{source}:{target}:ro")]
        if workload.component == "postgresql":
            options += ["--volume", "/data"]
        volumes = {volume["name"]: volume for volume in workload.spec.get("volumes", [])}
        for mount in container.get("volumeMounts", []):
            volume = volumes.get(mount["name"], {"name": mount["name"], "emptyDir": {"sizeLimit": "1Gi"}})
            options += self._volume(volume, mount["mountPath"], group)
        return options

    def _volume(self, volume: Document, target: str, group: int) -> list[str]:
        """A folder of root's that the group of the pod may write to, as a kubelet makes it; for its files, that it may read."""
        if "emptyDir" in volume:
            size = volume["emptyDir"]["sizeLimit"].replace("Gi", "g").replace("Mi", "m")
            return ["--tmpfs", f"{target}:mode=2777,gid={group},size={size}"]
        folder = self._folder / "volumes" / str(volume["name"])
        if "persistentVolumeClaim" in volume:
            folder.mkdir(parents=True, exist_ok=True)
            os.chown(folder, 0, group)
            folder.chmod(0o2775)
            return ["--volume", f"{folder}:{target}"]
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        folder.chmod(0o755)
        for name, content in self._files(volume).items():
            (folder / name).write_bytes(content)
            os.chown(folder / name, 0, group)
            (folder / name).chmod(volume.get("secret", {}).get("defaultMode", 0o644))
        return ["--volume", f"{folder}:{target}:ro"]

    def _files(self, volume: Document) -> dict[str, bytes]:
        if "configMap" in volume:
            texts = self._rendered.get("ConfigMap", volume["configMap"]["name"])["data"]
            return {name: text.encode() for name, text in texts.items()}
        data = self._rendered.get("Secret", volume["secret"]["secretName"])["data"]
        return {name: base64.b64decode(content) for name, content in data.items()}

    def call(self, container: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a container, as `kubectl exec` does."""
        return docker("exec", container, *command, check=False)

    def logs(self, container: str) -> str:
        """What it wrote."""
        done = docker("logs", container)
        return done.stdout + done.stderr

    def end(self, container: str) -> int:
        """The exit code of a container that ends by itself."""
        return int(docker("wait", container).stdout)

    def stop(self, component: str, container: str) -> tuple[int, float]:
        """Tell a pod to end, and kill it when its time is over: its exit code, and the seconds that it took."""
        grace = self._rendered.workload(component).spec["terminationGracePeriodSeconds"]
        began = time.monotonic()
        docker("stop", "--time", str(min(grace, SECONDS - 10)), container)
        return self.end(container), time.monotonic() - began

    def await_ready(self, component: str, container: str) -> None:
        """Wait until the probe says that it is."""
        probe = self._rendered.workload(component).containers[0]["readinessProbe"]
        address = self.address(container)
        ports = {one["name"]: one["containerPort"] for one in self._rendered.workload(component).containers[0]["ports"]}
        deadline = time.monotonic() + SECONDS
        while not self._answers(probe, address, ports, container):
            running = docker("inspect", "--format", "{{.State.Running}}", container).stdout.strip() == "true"
            assert running, self.logs(container)
            assert time.monotonic() < deadline, self.logs(container)
            time.sleep(POLL)

    def address(self, container: str) -> str:
        """The address of a container in its network."""
        found = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return docker("inspect", "--format", found, container).stdout.strip()

    def _answers(self, probe: Document, address: str, ports: dict[str, int], container: str) -> bool:
        if "exec" in probe:
            return self.call(container, *probe["exec"]["command"]).returncode == 0
        try:
            if "httpGet" in probe:
                port = ports[probe["httpGet"]["port"]]
                return httpx.get(
                    f"http://{address}:{port}{probe['httpGet']['path']}", timeout=PROBE_SECONDS, trust_env=False
                ).is_success
            with socket.create_connection((address, ports[probe["tcpSocket"]["port"]]), timeout=PROBE_SECONDS):
                return True
        except (OSError, httpx.HTTPError):
            return False


@contextmanager
def node_for(rendered: Rendered) -> Iterator[Node]:
    """A node that is gone afterwards, with all that ran on it. Skips or fails the test without an image."""
    if problem := docker("image", "inspect", BASE, POSTGRES, REDIS, check=False).stderr.strip():
        missing(f"An image is missing: {problem}.")
    build_all()
    folder = Path(tempfile.mkdtemp(prefix="ff-chart-"))
    folder.chmod(0o755)
    try:
        with Node(rendered, folder) as node:
            yield node
    finally:
        shutil.rmtree(folder)


