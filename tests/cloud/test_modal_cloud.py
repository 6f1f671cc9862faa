"""The modal provider and the cloud of Modal itself."""

import functools
import os

import pytest

from sandboxes.providers.modal.provider import DEFAULT_IMAGE
from sandboxes.providers.registry import MODAL_IMAGE_VARIABLE
from sandboxes.testing.conformance import ProviderConformance
from tests.cloud.bounded import BoundedModal, LeftInCloud, need, swept

need("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")


@pytest.fixture(scope="module")
def provider_factory():
    made = functools.partial(BoundedModal, os.environ.get(MODAL_IMAGE_VARIABLE) or DEFAULT_IMAGE)
    yield made
    assert swept(made()) == []


class TestModalCloud(LeftInCloud, ProviderConformance):
    finds_ended = False
