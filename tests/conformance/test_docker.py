"""The docker provider passes the conformance kit, with an image that has Python."""

import asyncio
import functools
import json

import pytest

from sandboxes.providers.docker import DockerProvider
from sandboxes.testing.conformance import ProviderConformance


@pytest.fixture(scope="module")
def provider_factory():
    return functools.partial(DockerProvider, default_image="fanfold-test/base:latest", pull="never")


@pytest.mark.docker
class TestDocker(ProviderConformance):
    async def left_of(self, provider, ids):
        return await asyncio.to_thread(remains, provider, ids)


def remains(provider, ids):
    """Containers, volumes and images that carry any of these ids in their names or labels."""
    api = provider._engine.api
    containers = [name for one in api.containers(all=True) for name in one["Names"]]
    volumes = [one["Name"] for one in api.volumes()["Volumes"] or ()]
    images = [json.dumps(one["Labels"]) for one in api.images() if one["Labels"]]
    return [name for name in [*containers, *volumes, *images] if any(id_ in name for id_ in ids)]
