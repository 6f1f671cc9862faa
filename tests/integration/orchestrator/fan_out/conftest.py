"""Fan-outs on each provider of this machine, and what is left of them: nothing, whatever became of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

from orchestrator.runs.labels import INSTALLATION_LABEL
from orchestrator.runs.models import Event, Run
from orchestrator.service import Service
from orchestrator.spec import RunSpec
from sandboxes.portal import portal
from sandboxes.providers.docker import layout
from sandboxes.providers.local import LocalProvider
from sandboxes.providers.registry import get_provider
from tests.integration.orchestrator.conftest import working

IMAGE = "fanfold-test/base:latest"


@dataclass(frozen=True)
class Ended:
    """A run that has ended."""

    run: Run
    events: list[Event]
    children: list[Run]
    """All below it, at any depth."""
    artifacts: Mapping[str, str]

    @property
    def problem(self) -> str:
        """What was wrong with it."""
        return self.run.error.message if self.run.error else ""

    @property
    def results(self) -> dict[str, str]:
        """What tools answered, by the ids of their calls."""
        return {event.data["id"]: event.data["text"] for event in self.events if event.type == "tool.result"}

    @property
    def output(self) -> str:
        """What its last check printed."""
        return "".join(event.data["text"] for event in self.events if event.type == "verify.output")

    @property
    def report(self) -> dict[str, Any]:
        """What is told of the merge."""
        name = "merge.json" if "merge.json" in self.artifacts else "merge-1.json"
        found: dict[str, Any] = json.loads(self.artifacts[name])
        return found

    def statuses(self) -> dict[str, str]:
        """How its children ended, by their names."""
        return {child.name: child.status.value for child in self.children}


@pytest.fixture(scope="module", params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def service(new_home: Any, provider: str) -> Iterator[Service]:
    with new_home(DOCKER_IMAGE=IMAGE) as settings, Service(settings) as opened, working(opened):
        yield opened


@pytest.fixture
def begin(service: Service, provider: str, tmp_path: Path) -> Callable[..., str]:
    """Submits a task, over these files, with these scripts beside it; the id of its run."""

    def submit(files: Mapping[str, str], scripts: Mapping[str, Any] | None = None, **task: Any) -> str:
        _write(tmp_path / "project", files)
        _write(tmp_path, {name: yaml.safe_dump(script) for name, script in (scripts or {}).items()})
        sandbox = {"provider": provider, **task.pop("sandbox", {})}
        spec = RunSpec.model_validate({"inputs": {"path": "project"}, "sandbox": sandbox, **task})
        return service.submit(spec, base_dir=tmp_path).id

    return submit


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def ended(service: Service) -> Callable[[str], Ended]:
    """Waits for the end of a run."""

    def wait(run_id: str) -> Ended:
        events = list(service.follow(run_id))
        kept = {}
        for one in service.artifacts(run_id):
            with service.open_artifact(run_id, one.name) as file:
                kept[one.name] = file.read().decode()
        return Ended(service.get(run_id), events, list(service.children(run_id)), kept)

    return wait


@pytest.fixture
def play(begin: Callable[..., str], ended: Callable[[str], Ended]) -> Callable[..., Ended]:
    """Runs a task to its end, see `begin`."""
    return lambda *args, **task: ended(begin(*args, **task))


@pytest.fixture(autouse=True)
def _nothing_is_left(service: Service, provider: str) -> Iterator[None]:
    yield
    installation = service._of.store.installation()
    left = portal.run(get_provider(provider, home=service._of.settings.home).find({INSTALLATION_LABEL: installation}))
    assert left == []
    assert not LocalProvider(service._of.settings.home)._sandboxes.exists()
    if provider == "docker":
        assert _on_the_engine(service, installation) == []


def _on_the_engine(service: Service, installation: str) -> list[str]:
    """What the engine has of this record: containers and volumes by their labels, and images of its sandboxes' forks."""
    ours = {"label": f"{layout.USER_LABEL_PREFIX}{INSTALLATION_LABEL}={installation}"}
    runs = service.list(limit=1000, with_children=True)
    client = docker.APIClient(version="auto")
    try:
        found = [one["Id"] for one in client.containers(all=True, filters=ours)]
        found += [one["Name"] for one in client.volumes(filters=ours)["Volumes"] or ()]
        images = client.images(layout.FORK_IMAGES)
    finally:
        client.close()
    boxes = {one.sandbox_id for run in runs for one in service.attempts(run.id)}
    return found + [image["Id"] for image in images if (image["Labels"] or {}).get(layout.SANDBOX_LABEL) in boxes]
