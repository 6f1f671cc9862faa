"""The modal provider and the cloud of Modal itself."""

import pytest

from sandboxes.testing.conformance import ProviderConformance
from tests.cloud.bounded import BoundedModal, LeftInCloud, need, swept
from tests.conformance.test_modal import OnModal

need("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")


@pytest.fixture(scope="module")
def provider_factory():
    yield BoundedModal
    assert swept(BoundedModal()) == 0


class TestModalCloud(LeftInCloud, OnModal, ProviderConformance):
    pass
