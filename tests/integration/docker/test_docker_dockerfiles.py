"""A sandbox of a Dockerfile on docker: the engine builds it once, within the run's network, and what is old goes again."""

import time

import pytest

from sandboxes.errors import ImageBuildFailed, ImageNotFound, InvalidSpec, SandboxNotFound
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.docker import building, layout
from sandboxes.providers.dockerfile import Dockerfile
from tests.dockerfiles import Specs
from tests.integration.docker.conftest import BASE

pytestmark = pytest.mark.docker


@pytest.fixture
def built_here(api):
    """What was built meanwhile goes again."""
    before = built(api)
    yield
    for image in built(api) - before:
        api.remove_image(image, force=True)


@pytest.fixture
def provider(built_here, provider, labels):
    provider.labels = labels
    return provider


def built(api):
    marks = {"label": f"{layout.BUILT_LABEL}=true"}
    return {one["Id"] for one in [*api.images(filters=marks), *api.images(filters={**marks, "dangling": True})]}


@pytest.fixture
def spec(tmp_path):
    return Specs(tmp_path, BASE)


async def said(provider, spec, command):
    handle = await provider.create(spec, provider.labels)
    async with await provider.attach(handle) as sandbox:
        return handle, (await sandbox.aexecute(command)).output


async def test_what_a_dockerfile_says_is_in_the_sandbox(provider, spec):
    asked = spec(
        "ENV GREETING=hello", "WORKDIR /opt/app", "COPY file here", "COPY . /all", "RUN cat here > made && id -u >> made"
    )
    _, told = await said(provider, asked, "echo $GREETING; cat /opt/app/made; ls -A /all; id -u")
    assert told == f"hello\n{spec.content}0\nDockerfile\nfile\n1000\n"


async def test_it_is_built_once_and_again_when_something_changes(provider, spec, api, tmp_path):
    asked = spec("COPY file /f", "RUN date +%s%N > /built")
    first, told = await said(provider, asked, "cat /built")
    second, again = await said(provider, asked, "cat /built")
    assert (first.spec.image, told) == (second.spec.image, again)
    (tmp_path / "file").write_text("changed")
    third, other = await said(provider, asked, "cat /f; cat /built")
    assert third.spec.image != first.spec.image
    assert other.startswith("changed")


@pytest.mark.parametrize(("network", "build_network", "links"), [("none", None, 1), ("public", None, 2), ("none", "public", 2)])
async def test_run_has_the_network_of_the_sandbox_or_what_the_dockerfile_was_given(
    provider, spec, network, build_network, links
):
    asked = spec("COPY file /f", "RUN ls /sys/class/net | wc -l > /links", network=network, build_network=build_network)
    _, told = await said(provider, asked, "cat /links")
    assert int(told) == links


async def test_a_build_that_fails_tells_its_last_lines_and_leaves_no_image_of_that_name(provider, spec, api):
    asked = spec("COPY file /f", r"RUN exec 2>&1; echo begun; printf '\033[31mred\033[0m\n'; ls /nowhere")
    with pytest.raises(
        ImageBuildFailed, match=r"(?s)cannot build the Dockerfile.*returned a non-zero code.*begun\nred\n.*/nowhere"
    ) as told:
        await provider.create(asked, provider.labels)
    assert "\x1b" not in str(told.value)
    assert await provider.find(provider.labels) == []


async def test_an_image_that_it_stands_on_is_not_fetched_by_who_does_not_pull(provider, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM no/such:image\n")
    with pytest.raises(ImageNotFound, match="no/such:image"):
        await provider.create(SandboxSpec(dockerfile=Dockerfile(path=str(tmp_path / "Dockerfile"))))


@pytest.mark.parametrize("label", ["fanfold.porter=x", "fanfold.unset=nonsense", "fanfold.label.test=forged"])
async def test_an_image_that_says_what_only_we_may_say_is_refused(provider, spec, label):
    with pytest.raises(InvalidSpec, match="labels that are Fanfold's own"):
        await provider.create(spec(f"LABEL {label}"), provider.labels)


async def test_children_are_of_the_same_image_and_need_no_dockerfile(provider, spec):
    parent, _ = await said(provider, spec("COPY file /f"), "echo work > w")
    children = await provider.fork(parent, 1, labels=provider.labels)
    children += await provider.fork(parent, 1, labels=provider.labels, spec=spec("COPY file /f"))
    for child in children:
        async with await provider.attach(child) as sandbox:
            assert (await sandbox.aexecute("cat w /f")).output == f"work\n{spec.content}"
        assert child.spec.image == parent.spec.image


async def test_images_that_nobody_asks_for_go_after_a_while_and_those_in_use_stay(provider, spec, api, monkeypatch):
    used, _ = await said(provider, spec("COPY file /used"), "true")
    unused, _ = await said(provider, spec("COPY file /unused"), "true")
    await provider.destroy(unused)
    with pytest.raises(ImageBuildFailed):
        await provider.create(spec("COPY file /failed", "RUN exit 1"), provider.labels)
    await provider.sweep()
    assert {used.spec.image, unused.spec.image} <= names(api)
    now = time.time()
    monkeypatch.setattr(building.time, "time", lambda: now + building.KEPT_SECONDS + 60)
    await provider.sweep()
    assert names(api) & {used.spec.image, unused.spec.image} == {used.spec.image}
    dangling = api.images(filters={"label": f"{layout.BUILT_LABEL}=true", "dangling": True})
    assert [one["Id"] for one in dangling] == []
    with pytest.raises((ImageNotFound, SandboxNotFound), match="not there any more"):
        await provider.create(unused.spec, provider.labels)


def names(api):
    return {tag for one in api.images(layout.BUILT_IMAGES) for tag in one["RepoTags"] or ()}
