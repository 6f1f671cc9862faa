"""Which engines' volumes can be layers: those of this machine, on a plain file system."""

import pytest

from sandboxes.providers.docker import layers

PLAIN = {"OSType": "linux", "DockerRootDir": "/var/lib/docker", "SecurityOptions": ["name=seccomp,profile=default"]}


@pytest.fixture
def on_a_plain_disk(tmp_path):
    kind = layers._file_system(str(tmp_path))
    if kind not in layers._PLAIN:
        pytest.skip(f"temporary files are on {kind} here")
    return {**PLAIN, "DockerRootDir": str(tmp_path)}


def test_an_engine_of_this_machine_can(on_a_plain_disk):
    assert layers.usable(on_a_plain_disk, True)


@pytest.mark.parametrize(
    "otherwise",
    [
        {"OSType": "windows"},
        {"SecurityOptions": ["name=rootless"]},
        {"SecurityOptions": ["name=userns"]},
        {"DockerRootDir": "/no/such/place"},
        {"DockerRootDir": "/proc"},
        {"DockerRootDir": ""},
    ],
    ids=str,
)
def test_others_cannot(on_a_plain_disk, otherwise):
    assert not layers.usable({**on_a_plain_disk, **otherwise}, True)


def test_an_engine_elsewhere_cannot(on_a_plain_disk):
    assert not layers.usable(on_a_plain_disk, False)
