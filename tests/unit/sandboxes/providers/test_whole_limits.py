"""A provider that counts in whole cores and GiB refuses what does not fit."""

import pytest

from sandboxes.providers.base import Capabilities, SandboxSpec

WHOLE = Capabilities(cpu=True, memory="sandbox", pids=True, disk=True, whole=True)


@pytest.mark.parametrize(
    ("resources", "missing"),
    [
        ({"cpu": 2, "memory": "4GiB", "disk": "3GiB"}, []),
        ({"cpu": 0.5}, ["resources.cpu"]),
        ({"memory": "1500MiB"}, ["resources.memory"]),
        ({"disk": "1GB"}, ["resources.disk"]),
    ],
    ids=str,
)
def test_what_is_not_whole_is_missing(resources, missing):
    assert WHOLE.missing(SandboxSpec(resources=resources)) == missing


def test_others_take_any_number():
    anything = Capabilities(cpu=True, memory="sandbox", pids=True, disk=True)
    assert anything.missing(SandboxSpec(resources={"cpu": 0.5, "memory": "1500MiB", "disk": "1GB"})) == []
