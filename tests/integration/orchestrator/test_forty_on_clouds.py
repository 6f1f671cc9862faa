"""Forty children of one run on a cloud, each in a fork: all are merged, and nothing of them is left on the platform.

That agents do so is proved on local and docker (`fan_out/test_forty_bugs.py`); here the children are commands.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.runs.models import RunStatus
from orchestrator.service import Service
from orchestrator.spec import RunSpec
from sandboxes.portal import portal
from sandboxes.providers.registry import get_provider
from tests.integration.orchestrator.conftest import wait_until, working
from tests.wire.clouds import Cloud, daytona, modal
from tests.wire.daytona.server import WireServer
from tests.wire.modal.fixtures import IMAGE, exported, modal_server

__all__ = ["modal_server"]

CHILDREN = 40
PROJECT_FILES = 200


@pytest.fixture(
    scope="module", params=[pytest.param("modal", marks=pytest.mark.docker), "daytona", "daytona, virtual machines"]
)
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    if request.param == "modal":
        yield modal(request.getfixturevalue("modal_server"))
        return
    kind = "container" if request.param == "daytona" else "linux-vm"
    with WireServer(sandbox_class=kind) as server, exported(server.variables):
        yield daytona(server)


@pytest.fixture(scope="module")
def service(new_home: Any, cloud: Cloud) -> Iterator[Service]:
    with new_home(MODAL_IMAGE=IMAGE) as settings, Service(settings) as opened, working(opened):
        yield opened


@pytest.mark.timeout(400)
def test_forty_children_are_merged_and_nothing_of_them_is_left(service: Service, cloud: Cloud, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for number in range(PROJECT_FILES):
        (project / f"file-{number}.txt").write_text(f"{number}\n" * 50)
    items = [f"{number:02}" for number in range(CHILDREN)]
    task = {
        "inputs": {"path": "project"},
        "sandbox": {"provider": cloud.name},
        "fan_out": {"items": items, "command": "echo of-${{ item }} > of-${{ item }}; rm file-1${{ item }}.txt"},
        "verify": "cat of-* && ls file-* | wc -l",
    }
    before, began = cloud.created(), time.monotonic()
    run_id = service.submit(RunSpec.model_validate(task), base_dir=tmp_path).id
    events = list(service.follow(run_id))
    print(f"\n{CHILDREN} children on {cloud.name}: {time.monotonic() - began:.1f} s")

    run = service.get(run_id)
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    assert Counter(child.status for child in service.children(run_id)) == {RunStatus.SUCCESS: CHILDREN}
    assert {child.provider for child in service.children(run_id)} == {cloud.name}
    told = "".join(event.data["text"] for event in events if event.type == "verify.output").split()
    assert told == [*(f"of-{item}" for item in items), str(PROJECT_FILES - CHILDREN)]
    assert cloud.created() - before == 1 + CHILDREN
    wait_until(lambda: cloud.there() == [], "no sandbox and no snapshot is left on the platform")
    assert portal.run(left_in_the_book(service, cloud)) == []


async def left_in_the_book(service: Service, cloud: Cloud) -> list[Any]:
    provider = get_provider(cloud.name, home=service._of.settings.home)
    try:
        return [*await provider.find(), *await provider.find_snapshots()]
    finally:
        await provider.aclose()
