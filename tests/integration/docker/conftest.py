"""An engine, and a provider whose sandboxes and snapshots are gone afterwards."""

import uuid

import docker
import pytest

from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.docker import DockerProvider

BASE = "fanfold-test/base:latest"


@pytest.fixture
def api():
    client = docker.APIClient(version="auto")
    yield client
    client.close()


@pytest.fixture
def labels():
    return {"test": uuid.uuid4().hex}


async def tidied(made, labels):
    for handle in await made.find(labels):
        await made.destroy(handle)
    for snapshot in await made.find_snapshots(labels):
        await made.delete_snapshot(snapshot)
    await made.aclose()


@pytest.fixture
async def provider(labels):
    made = DockerProvider(BASE, pull="never")
    yield made
    await tidied(made, labels)


@pytest.fixture
def create(provider, labels):
    async def create(**fields):
        return await provider.create(SandboxSpec(**fields), labels)

    return create
