"""A sandbox of a Dockerfile on modal: the platform builds it, and what it may not run there is refused before."""


import pytest

from sandboxes.errors import ImageBuildFailed, Unsupported
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.dockerfile import Dockerfile
from sandboxes.providers.modal import ModalProvider
from tests.dockerfiles import Specs
from tests.integration.modal.conftest import IMAGE

pytestmark = pytest.mark.docker


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "secret").write_text("not for the image")
    (tmp_path / ".dockerignore").write_text("secret\n")
    return Specs(tmp_path, IMAGE, build_network="public")


async def said(provider, handle, command):
    async with await provider.attach(handle) as sandbox:
        return (await sandbox.aexecute(command)).output


async def test_what_a_dockerfile_says_is_in_the_sandbox(provider, labels, spec):
    asked = spec("ENV GREETING=hello", "WORKDIR /opt/app", "COPY file here", "COPY . /all", "RUN cat here > made; id -u >>made")
    handle = await provider.create(asked, labels)
    told = await said(provider, handle, "echo $GREETING; cat /opt/app/made; ls -A /all")
    assert told == f"hello\n{spec.content}0\n.dockerignore\nDockerfile\nfile\n"


async def test_it_is_built_once_and_its_children_need_no_dockerfile(provider, labels, spec, server):
    asked = spec("COPY file /f", "RUN date +%s%N > /built")
    parent = await provider.create(asked, labels)
    children = await provider.fork(parent, 1, labels=labels) + await provider.fork(parent, 1, spec=asked, labels=labels)
    other = ModalProvider(IMAGE)
    again = await other.create(asked, labels)
    built = {await said(provider, one, "cat /built") for one in (parent, *children, again)}
    assert len(built) == 1
    assert {one.spec.image for one in (parent, *children, again)} == {parent.spec.image}
    await other.aclose()


async def test_a_build_that_fails_tells_its_last_lines(provider, labels, spec):
    with pytest.raises(ImageBuildFailed, match=r"(?s)Modal cannot build the Dockerfile.*begun.*/nowhere"):
        await provider.create(spec("COPY file /f", "RUN echo begun; ls /nowhere"), labels)
    assert await provider.find(labels) == []


@pytest.mark.parametrize("fields", [{}, {"network": "allowlist", "allowed_hosts": ("example.org",)}])
async def test_what_runs_where_nothing_keeps_it_from_the_network_is_refused(provider, labels, tmp_path, server, fields):
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN true\n")
    server.counts.taken()
    with pytest.raises(Unsupported, match="`network: public` for the Dockerfile alone"):
        await provider.create(SandboxSpec(dockerfile=Dockerfile(path=str(tmp_path / "Dockerfile")), **fields), labels)
    assert "ImageGetOrCreate" not in server.counts.taken()


async def test_a_dockerfile_that_runs_nothing_needs_no_network(provider, labels, spec):
    handle = await provider.create(spec("COPY file /f", build_network=None), labels)
    assert await said(provider, handle, "cat /f") == spec.content
