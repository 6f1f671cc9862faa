"""A sandbox of a Dockerfile on daytona: the platform builds it, and what it may not run there is refused before."""


import pytest
from daytona import CreateSandboxFromImageParams, Image
from daytona._async import object_storage

from sandboxes.errors import ImageBuildFailed, InvalidSpec, ProviderUnavailable, SandboxError, Unsupported
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.daytona import account
from sandboxes.providers.dockerfile import Dockerfile
from tests.dockerfiles import Specs
from tests.integration.providers.daytona.conftest import LABELS, there, until

IMAGE = "fanfold-test/base:latest"


@pytest.fixture(autouse=True)
def _storage_without_tls(monkeypatch):
    """The SDK takes the storage of a cloud over TLS alone, with authorities that no variable adds to."""
    store = object_storage.S3Store

    def plain(bucket, *, client_options, **options):
        return store(bucket, client_options={**client_options, "allow_http": True}, **options)

    monkeypatch.setattr(object_storage, "S3Store", plain)


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "tool").write_text("#!/bin/sh\necho tool\n")
    (tmp_path / "sub" / "tool").chmod(0o755)
    (tmp_path / "secret").write_text("not for the image")
    (tmp_path / ".dockerignore").write_text("secret\n")
    return Specs(tmp_path, IMAGE, build_network="public")


async def said(provider, handle, command):
    async with await provider.attach(handle) as sandbox:
        return (await sandbox.aexecute(command)).output


@pytest.mark.parametrize("system", ["read-only", "overlay"])
async def test_what_a_dockerfile_says_is_in_the_sandbox(provider, spec, system):
    lines = ["ENV GREETING=hello", "WORKDIR /opt/app", "COPY file here", "COPY . /all", "COPY sub/tool /usr/local/bin/"]
    asked = spec(*lines, "RUN cat here > made; id -u >> made; echo $GREETING >> made", system=system)
    handle = await provider.create(asked, LABELS)
    told = await said(provider, handle, "cat /opt/app/made; ls -A /all; tool")
    assert told == f"{spec.content}0\nhello\n.dockerignore\nDockerfile\nfile\nsub\ntool\n"


async def test_children_are_of_the_same_image(provider, spec, server):
    asked = spec("COPY file /f", "RUN date +%s%N > /built")
    parent = await provider.create(asked, LABELS)
    children = await provider.fork(parent, 1, labels=LABELS) + await provider.fork(parent, 1, spec=asked, labels=LABELS)
    again = await provider.create(asked, LABELS)
    assert len({await said(provider, one, "cat /built") for one in (parent, *children, again)}) == 1
    kept = await provider.snapshot(parent, LABELS)
    restored = await provider.create(parent.told_spec, LABELS, from_snapshot=kept)
    assert await said(provider, restored, "cat /f") == spec.content


async def test_by_what_a_handle_tells_alone_such_an_image_cannot_be_made_anew(provider, spec, server):
    parent = await provider.create(spec("COPY file /f"), LABELS)
    with pytest.raises(InvalidSpec, match="built of a Dockerfile"):
        await provider.create(parent.spec, LABELS)
    server.faults.set({"no_snapshots": True})
    [refused] = await provider.fork(parent, 1, labels=LABELS)
    assert isinstance(refused, InvalidSpec)
    [child] = await provider.fork(parent, 1, labels=LABELS, spec=spec("COPY file /f"))
    assert await said(provider, child, "cat /f") == spec.content


async def test_a_build_that_fails_tells_its_last_lines_and_leaves_nothing(provider, spec, server):
    with pytest.raises(ImageBuildFailed, match=r"(?s)Daytona cannot build the Dockerfile.*non-zero code.*begun.*/nowhere"):
        await provider.create(spec("COPY file /f", "RUN echo begun; ls /nowhere"), LABELS)
    await until(lambda: there(server) == [], "it is removed")


async def test_what_is_copied_and_not_there_is_said_at_once(provider, spec, server):
    with pytest.raises(ImageBuildFailed, match="not in its context"):
        await provider.create(spec("COPY secret /s"), LABELS)
    assert server.world.created == 0


async def test_a_storage_that_is_away_is_told_as_a_platform_that_is(provider, spec, server, monkeypatch):
    monkeypatch.setattr(account, "PATIENCE", 0.3)
    monkeypatch.setattr(object_storage, "UPLOAD_RETRY_TIMEOUT", object_storage.timedelta(seconds=0.5))
    server.faults.set({"unavailable": 1000, "only": "HEAD /storage"})
    with pytest.raises(ProviderUnavailable):
        await provider.create(spec("COPY file /f"), LABELS)


@pytest.mark.parametrize("fields", [{}, {"network": "allowlist", "allowed_hosts": ("example.org",)}])
async def test_what_runs_where_nothing_keeps_it_from_the_network_is_refused(provider, tmp_path, server, fields):
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN true\n")
    with pytest.raises(Unsupported, match="`network: public` for the Dockerfile alone"):
        await provider.create(SandboxSpec(dockerfile=Dockerfile(path=str(tmp_path / "Dockerfile")), **fields), LABELS)
    assert server.world.created == 0


async def test_the_wire_server_refuses_what_it_does_not_build_by_name(provider, server):
    async def asked(client):
        image = Image.base(IMAGE).dockerfile_commands(["HEALTHCHECK CMD true"])
        await client.create(CreateSandboxFromImageParams(image=image))

    with pytest.raises(SandboxError, match="HEALTHCHECK"):
        await provider._account.run("build an image", asked)
