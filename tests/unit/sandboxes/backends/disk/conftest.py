"""A folder of this machine, behind a backend in each of its modes."""

from __future__ import annotations

import pytest

from sandboxes.backends import FilesystemBackend


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "root"
    made.mkdir()
    return made


@pytest.fixture
def virtual(root):
    return FilesystemBackend(root, virtual_mode=True)


@pytest.fixture(params=["virtual", "host"])
def backend(request, root):
    return FilesystemBackend(root_dir=root, virtual_mode=request.param == "virtual")


@pytest.fixture
def at(backend, root):
    """The path of a file of the root as the backend names it."""
    return lambda name: f"/{name}" if backend.virtual_mode else f"{root}/{name}"
