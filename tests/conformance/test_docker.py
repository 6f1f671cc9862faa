"""The docker provider passes the conformance kit, with an image that has Python."""

import functools

import pytest

from sandboxes.providers.docker import DockerProvider
from sandboxes.testing.conformance import ProviderConformance


@pytest.fixture(scope="module")
def provider_factory():
    return functools.partial(DockerProvider, default_image="fanfold-test/base:latest", pull="never")


@pytest.mark.docker
class TestDocker(ProviderConformance):
    pass
