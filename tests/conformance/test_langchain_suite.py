"""langchain's own suite for sandboxes (`langchain-tests`) over ours, as the deepagents package sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest
from deepagents.backends.protocol import SandboxBackendProtocol
from langchain_tests.integration_tests import SandboxIntegrationTests

from sandboxes.backends.deepagents import for_deepagents
from sandboxes.portal import portal
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.registry import get_provider
from sandboxes.sandbox import Sandbox
from tests.wire.daytona.server import WireServer
from tests.wire.modal.fixtures import modal_by_hand

__all__ = ["modal_by_hand"]

PROGRAMS = "/tmp/programs"
PATH = f"{PROGRAMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_ABSOLUTE = "seed 004, FileInfo: `path: str  # required — absolute path`; deepagents 0.7.32 itself returns absolute ones"
_WHOLE = "seed 001, read: 'For binary files, the full raw content is returned': there is no cap of 512,000 bytes"
GAPS: Mapping[str, str] = {
    "test_glob": _ABSOLUTE,
    "test_glob_basic_pattern": _ABSOLUTE,
    "test_glob_hidden_files_explicitly": _ABSOLUTE,
    "test_glob_with_character_class": _ABSOLUTE,
    "test_glob_with_question_mark": _ABSOLUTE,
    "test_glob_with_directories": "seed 001, glob: 'Return files matching a glob pattern': folders are none",
    "test_ls_lists_nested_directories": "seed 001, ls: 'Directories have a trailing `/` in their path'",
    "test_read_binary_file_1_mib_returns_error": _WHOLE,
    "test_aread_binary_file_1_mib_returns_error": _WHOLE,
}
"""What the suite asks for and the seeds contradict, each with the seed's statement."""


def with_python(sandbox: Sandbox) -> Sandbox:
    """The suite calls `python`, and what the sandbox has is called `python3`."""
    made = sandbox.execute(f'mkdir {PROGRAMS} && ln -s "$(command -v python3)" {PROGRAMS}/python')
    assert made.exit_code == 0, made.output
    return sandbox


class Suite(SandboxIntegrationTests):
    provider: ClassVar[str]
    image: ClassVar[str | None] = None

    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxBackendProtocol]:
        provider = get_provider(cls.provider, home=tmp_path_factory.mktemp("home"))
        handle = portal.run(provider.create(SandboxSpec(image=cls.image, env={"PATH": PATH})))
        try:
            attached = portal.run(provider.attach(handle))
            yield for_deepagents(with_python(attached))
            portal.run(attached.aclose())
        finally:
            portal.run(provider.destroy(handle))
            portal.run(provider.aclose())

    @pytest.fixture(scope="class")
    @classmethod
    def sandbox_backend(cls, sandbox: SandboxBackendProtocol) -> SandboxBackendProtocol:
        return sandbox

    @pytest.fixture(autouse=True)
    def _contradicted(self, request: pytest.FixtureRequest) -> None:
        if reason := GAPS.get(request.node.name):
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))

    def test_every_gap_names_a_test_of_the_suite(self) -> None:
        assert [gap for gap in GAPS if not hasattr(SandboxIntegrationTests, gap)] == []


class TestLocal(Suite):
    provider = "local"


@pytest.fixture(scope="class")
def _daytona() -> Iterator[None]:
    with WireServer() as server, pytest.MonkeyPatch.context() as environment:
        for name, value in server.variables.items():
            environment.setenv(name, value)
        yield


@pytest.mark.usefixtures("_daytona")
class TestDaytona(Suite):
    provider = "daytona"


@pytest.mark.docker
class TestDocker(Suite):
    provider = "docker"
    image = "fanfold-test/base:latest"


@pytest.mark.docker
class TestModal(Suite):
    provider = "modal"
    image = "fanfold-test/base:latest"

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _served(cls, modal_by_hand: Mapping[str, str]) -> None:
        """The provider finds the server in the environment."""
