"""The stack of infra/compose.yaml under a name of its own, of this checkout's image and of what stands for the public ones."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from orchestrator.runs.labels import INSTALLATION_LABEL, RUN_LABEL
from sandboxes.portal import portal
from sandboxes.providers.base import SandboxHandle
from sandboxes.providers.registry import get_provider
from scripts.images import build
from tests.acceptance.pages import ROOT
from tests.conftest import IMAGES, missing
from tests.images.built import PLAN, docker
from tests.services import free_port

INFRA = ROOT / "infra"
SOCKET = Path("/var/run/docker.sock")
STAND_INS = {
    "POSTGRES_IMAGE": "fanfold-test/compose-postgres:latest",
    "VALKEY_IMAGE": "fanfold-test/compose-valkey:latest",
    "PROMETHEUS_IMAGE": "fanfold-test/compose-prometheus:latest",
}
CALL_SECONDS = 240
"""For one call of Compose."""
READY_SECONDS = 90
"""For the API to answer after a start."""
POLL = 0.2
FILES = ("compose.yaml", "compose.docker.yaml")
VERSION_1 = "docker-compose"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fanfold"
VERSION_2 = str(CACHE / "compose2" / "docker-compose")


def programs() -> Sequence[str]:
    """Both versions of Compose. Skips or fails the test when one is missing."""
    for program in (VERSION_1, VERSION_2):
        if shutil.which(program) is None:
            missing(f"There is no {program}.")
    return VERSION_1, VERSION_2


def secrets_of_ours() -> dict[str, str]:
    """What an operator makes at random."""
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    names = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "GRAFANA_PASSWORD")
    return {**{name: secrets.token_hex(24) for name in names}, "FANFOLD_SECRET_KEY": key}


@dataclass
class Stack:
    """One installation, whose `.env` somebody has to write. `environ` goes before what that says."""

    program: str
    """Which Compose."""
    project: str
    folder: Path
    """A copy of `infra`."""
    environ: dict[str, str]
    installations: set[str] = field(default_factory=set)
    """Ids of the records that it had."""

    @property
    def url(self) -> str:
        """The API's address."""
        return f"http://{self.environ['FANFOLD_PUBLISH']}"

    @property
    def image(self) -> str:
        """The control plane's, under a name that nobody else uses."""
        return self.environ["FANFOLD_IMAGE"]

    def environment(self, **more: str) -> dict[str, str]:
        """The variables of a command."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FANFOLD_", "COMPOSE_", "DOCKER_"))}
        return {**kept, **self.environ, "NO_PROXY": "*", "no_proxy": "*", **more}

    def __call__(self, *arguments: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """Call Compose."""
        done = subprocess.run(
            [self.program, *arguments], cwd=self.folder, env=self.environment(**more), capture_output=True, text=True,
            timeout=CALL_SECONDS, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"compose {' '.join(arguments)}: {done.stdout}{done.stderr}\n{self.logs()}"
        return done

    def logs(self) -> str:
        """The last words of each container."""
        told = []
        for name in docker("ps", "--all", "--quiet", "--filter", self.filter).stdout.split():
            done = docker("logs", "--tail", "15", name, check=False)
            told.append(f"{docker('inspect', '--format', '{{.Name}}', name).stdout}{done.stdout}{done.stderr}")
        return "\n".join(told)

    @property
    def filter(self) -> str:
        """What finds everything of it on the engine."""
        return f"label=com.docker.compose.project={self.project}"

    def container(self, service: str) -> str:
        """The id of a service's container; of several, of the first one."""
        own = f"label=com.docker.compose.service={service}"
        found = docker("ps", "--all", "--quiet", "--filter", self.filter, "--filter", own)
        return found.stdout.split()[0]

    def up(self) -> None:
        """Bring everything up, and wait until it answers."""
        self("up", "--detach")
        self.await_ready()

    def await_ready(self) -> None:
        """Wait until the API is ready."""
        self.wait(self._answers, "the API is ready", READY_SECONDS)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).is_success
        except httpx.TransportError:
            return False

    def wait(self, condition: Callable[[], object], what: str, seconds: float) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{self.logs()}"
            time.sleep(POLL)

    def crash(self, service: str) -> None:
        """Kill the first process of a container as the kernel would: the engine does not take that for somebody's wish."""
        container = self.container(service)
        self.wait(lambda: self._pid(container) != "0", f"{service} runs", READY_SECONDS)
        locked = ("--pid", "host", "--cap-drop", "ALL", "--cap-add", "KILL", "--network", "none")
        docker("run", "--rm", *locked, IMAGES[0], "sh", "-c", f"kill -9 {self._pid(container)}")

    def _pid(self, container: str) -> str:
        """Of the first process, as the engine's machine counts; 0 while there is none."""
        return docker("inspect", "--format", "{{.State.Pid}}", container).stdout.strip()

    def kill(self, service: str) -> None:
        """`docker kill`: it stays away until somebody starts it."""
        docker("kill", self.container(service))

    def new_key(self) -> str:
        """A key of an admin."""
        made = self("exec", "-T", "api", "fanfold", "keys", "create", "test", "--scope", "admin").stdout.strip()
        told = self("exec", "-T", "postgresql", "psql", "--username", "fanfold", "--tuples-only", "--no-align", "--command",
                    "SELECT id FROM installation", "fanfold")  # fmt: skip
        self.installations.add(told.stdout.strip())
        return made

    def sandboxes(self) -> list[SandboxHandle]:
        """The sandboxes of all records that it had."""
        return [one for known in self.installations for one in portal.run(_sandboxes(known))]

    def leftovers(self) -> dict[str, list[str]]:
        """What is left of it on the engine."""
        return {
            "containers": docker("ps", "--all", "--quiet", "--filter", self.filter).stdout.split(),
            "volumes": docker("volume", "ls", "--quiet", "--filter", self.filter).stdout.split(),
            "networks": docker("network", "ls", "--quiet", "--filter", self.filter).stdout.split(),
            "sandboxes": [f"{one.id} of {one.labels.get(RUN_LABEL)}" for one in self.sandboxes()],
        }

    def down(self) -> None:
        """Take everything away."""
        needed = dict.fromkeys((*secrets_of_ours(), "FANFOLD_PROVIDER", "DOCKER_GID"), "0")
        self("down", "--volumes", "--remove-orphans", **needed, COMPOSE_FILE=":".join(FILES), COMPOSE_PROFILES="watch,metrics")


async def _sandboxes(installation: str) -> Sequence[SandboxHandle]:
    provider = get_provider("docker", home=Path(tempfile.gettempdir()))
    try:
        return await provider.find({INSTALLATION_LABEL: installation})
    finally:
        await provider.aclose()


@contextmanager
def stack(program: str) -> Iterator[Stack]:
    """A stack that is gone afterwards. Skips or fails the test where images are missing."""
    if problem := docker("image", "inspect", *STAND_INS.values(), PLAN.base, PLAN.builder, check=False).stderr.strip():
        missing(f"An image is missing: {problem}.")
    if not SOCKET.exists():
        missing(f"There is no engine at {SOCKET}.")
    build(PLAN, ["controlplane"])
    project = f"ff-compose-{uuid.uuid4().hex[:8]}"
    image = f"{project}/controlplane:test"
    docker("tag", PLAN.image("controlplane"), image)
    folder = Path(tempfile.mkdtemp(prefix="ff-compose-"))
    shutil.copytree(INFRA, folder / "infra")
    environ = {
        "COMPOSE_PROJECT_NAME": project, "FANFOLD_IMAGE": image, "FANFOLD_PUBLISH": f"127.0.0.1:{free_port()}",
        "FANFOLD_DOCKER_IMAGE": IMAGES[0], "COMPOSE_PROFILES": "metrics", **STAND_INS,
    }  # fmt: skip
    made = Stack(program, project, folder / "infra", environ)
    try:
        yield made
    finally:
        made.down()
        docker("image", "rm", image)
        shutil.rmtree(folder)


def env_file(**variables: str) -> str:
    """The `.env` of a stack whose sandboxes are in this machine's engine."""
    given = {
        "COMPOSE_FILE": ":".join(FILES), "FANFOLD_PROVIDER": "docker", "DOCKER_GID": str(SOCKET.stat().st_gid),
        **secrets_of_ours(), **variables,
    }  # fmt: skip
    return "".join(f"{name}={value}\n" for name, value in given.items())
