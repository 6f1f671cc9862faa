"""A task whose sandbox is of a Dockerfile, by the command line."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

FAN_OUT = """
sandbox: {provider: docker, dockerfile: {path: env/Dockerfile, network: none}}
fan_out:
  tasks: [{name: a, command: "cat /opt/tool > a"}, {name: b, command: "cat /opt/tool > b"}]
verify: cat /opt/tool a b
"""


@pytest.fixture
def content() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def folder(tmp_path: Path, content: str) -> Iterator[Path]:
    """A task's folder with a Dockerfile; at the end the images that were built meanwhile are gone."""
    api = docker.APIClient(version="auto")
    before = built(api)
    place = tmp_path / "task"
    (place / "env").mkdir(parents=True)
    (place / "env" / "Dockerfile").write_text("FROM fanfold-test/base:latest\nCOPY tool /opt/tool\nRUN cp /opt/tool /opt/ran\n")
    (place / "env" / "tool").write_text(f"{content}\n")
    yield place
    for one in built(api) - before:
        api.remove_image(one, force=True)
    api.close()


def built(api: docker.APIClient) -> set[str]:
    """Images of Dockerfiles, and what builds have left that failed."""
    marks = {"label": "fanfold.built=true"}
    return {one["Id"] for one in [*api.images(filters=marks), *api.images(filters={**marks, "dangling": True})]}


@pytest.mark.docker
def test_exec_builds_a_dockerfile_where_an_image_could_be_named(fanfold: Any, folder: Path, content: str) -> None:
    done = fanfold("exec", "--provider", "docker", "--dockerfile", folder / "env" / "Dockerfile", "--", "cat", "/opt/ran")

    assert (done.returncode, done.stdout) == (0, f"{content}\n")


@pytest.mark.docker
def test_the_children_of_a_run_are_of_its_dockerfile_too(fanfold: Any, folder: Path, content: str) -> None:
    (folder / "task.yaml").write_text(FAN_OUT)

    done = fanfold("run", folder)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(content) == 3


def test_a_provider_without_images_refuses_it(fanfold: Any, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM a\n")

    done = fanfold("exec", "--dockerfile", tmp_path / "Dockerfile", "--", "true")

    assert done.returncode == 2
    assert "provider 'local' cannot give: dockerfile" in done.stderr


@pytest.mark.docker
def test_a_build_that_fails_is_bad_input_with_its_last_lines(fanfold: Any, folder: Path) -> None:
    (folder / "env" / "Dockerfile").write_text("FROM fanfold-test/base:latest\nRUN echo so far; exit 3\n")

    done = fanfold("exec", "--provider", "docker", "--dockerfile", folder / "env" / "Dockerfile", "--", "true")

    assert done.returncode == 2
    assert "so far" in done.stderr
