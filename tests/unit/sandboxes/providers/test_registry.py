"""A name becomes a provider; a wrong one becomes advice."""

import subprocess
import sys
import textwrap

import pytest

from sandboxes.errors import InvalidSpec, ProviderUnavailable
from sandboxes.providers.docker import DockerProvider
from sandboxes.providers.isolation import is_weaker
from sandboxes.providers.local import LocalProvider
from sandboxes.providers.modal import ModalProvider
from sandboxes.providers.registry import (
    GROUP,
    IMAGE_VARIABLE,
    MODAL_APP_VARIABLE,
    MODAL_IMAGE_VARIABLE,
    get_provider,
    has_key,
    known_isolation,
    provider_names,
)


def test_our_own_providers_are_known(tmp_path):
    assert {"docker", "local", "modal"} <= set(provider_names())
    assert isinstance(get_provider("local", home=tmp_path), LocalProvider)
    assert isinstance(get_provider("docker", home=tmp_path), DockerProvider)
    assert isinstance(get_provider("modal", home=tmp_path), ModalProvider)


def test_an_unknown_name_is_refused_with_a_suggestion_and_the_list(tmp_path):
    with pytest.raises(InvalidSpec, match=r"'dokcer'\. Did you mean 'docker'\? Installed are: .*docker.*local"):
        get_provider("dokcer", home=tmp_path)


def test_a_name_that_is_like_nothing_gets_the_list_alone(tmp_path):
    with pytest.raises(InvalidSpec, match=r"no sandbox provider 'zzz'\. Installed are"):
        get_provider("zzz", home=tmp_path)


def test_the_environment_chooses_the_default_image(tmp_path, monkeypatch):
    monkeypatch.setenv(IMAGE_VARIABLE, "example:1")
    assert get_provider("docker", home=tmp_path)._maker.default_image == "example:1"
    monkeypatch.setenv(MODAL_IMAGE_VARIABLE, "example:2")
    monkeypatch.setenv(MODAL_APP_VARIABLE, "other")
    provider = get_provider("modal", home=tmp_path)
    assert (provider._default_image, provider._platform.app_name) == ("example:2", "other")


def test_a_cloud_has_a_key_when_the_environment_or_its_file_has_one(tmp_path, monkeypatch):
    for variable in ("MODAL_TOKEN_ID", "DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("MODAL_CONFIG_PATH", str(tmp_path / "modal.toml"))
    assert {name: has_key(name) for name in ("local", "docker", "modal", "daytona", "another")} == {
        "local": True, "docker": True, "modal": False, "daytona": False, "another": True,
    }  # fmt: skip
    (tmp_path / "modal.toml").touch()
    monkeypatch.setenv("DAYTONA_API_KEY", "x")
    assert has_key("modal")
    assert has_key("daytona")


def run_python(script, *paths):
    text = textwrap.dedent(script)
    return subprocess.run([sys.executable, "-c", text, *paths], capture_output=True, text=True, timeout=60)


def test_nothing_of_a_provider_is_imported_before_it_is_asked_for():
    script = """
        import sys
        import sandboxes.providers.registry
        names = ("docker", "modal", *(f"sandboxes.providers.{name}" for name in ("docker", "local", "modal")))
        print([name for name in names if name in sys.modules])
    """
    assert run_python(script).stdout == "[]\n"


@pytest.mark.parametrize("name", ["docker", "modal"])
def test_a_missing_sdk_is_told_with_the_way_to_get_it(name):
    script = """
        import sys
        from pathlib import Path
        from sandboxes.errors import ProviderUnavailable
        from sandboxes.providers.registry import get_provider

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name == sys.argv[1]:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Missing())
        try:
            get_provider(sys.argv[1], home=Path("."))
        except ProviderUnavailable as exc:
            print(exc)
    """
    assert f"pip install 'fanfold[{name}]'" in run_python(script, name).stdout


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Installs a distribution that adds a provider, for this test."""

    def install(source, value):
        (tmp_path / "theirs.py").write_text(textwrap.dedent(source))
        info = tmp_path / "theirs-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\ntheirs = {value}\n")
        monkeypatch.syspath_prepend(tmp_path)

    yield install
    sys.modules.pop("theirs", None)


def test_another_distribution_can_add_a_provider(distribution, tmp_path):
    distribution(
        """
        from sandboxes.providers.local import LocalProvider

        class Theirs(LocalProvider):
            name = "theirs"
        """,
        "theirs:Theirs",
    )
    assert "theirs" in provider_names()
    assert get_provider("theirs", home=tmp_path).name == "theirs"


def test_a_provider_that_cannot_be_loaded_is_told_apart_from_one_that_is_unknown(distribution, tmp_path):
    distribution("", "theirs:Missing")
    with pytest.raises(ProviderUnavailable, match=r"provider 'theirs' .* cannot be loaded"):
        get_provider("theirs", home=tmp_path)


def test_what_is_no_provider_is_not_taken_for_one(distribution, tmp_path):
    distribution("def make(home):\n    return 'a string'\n", "theirs:make")
    with pytest.raises(ProviderUnavailable, match="returned a str, which is not a SandboxProvider"):
        get_provider("theirs", home=tmp_path)


def test_what_is_known_of_the_isolation_of_ours_is_what_they_declare(tmp_path):
    for name in ("local", "docker", "modal", "daytona"):
        assert known_isolation(name) == get_provider(name, home=tmp_path).isolation
    assert known_isolation("theirs") is None


def test_another_distributions_provider_that_declares_nothing_counts_as_the_weakest(distribution, tmp_path):
    distribution(
        """
        from sandboxes.providers.base import SandboxProvider

        class Theirs(SandboxProvider):
            name = "theirs"
            def __init__(self, home): pass
            async def capabilities(self): ...
            async def create(self, spec, labels=None, *, from_snapshot=None): ...
            async def attach(self, handle): ...
            async def destroy(self, handle): ...
            async def find(self, labels=None): ...
        """,
        "theirs:Theirs",
    )
    theirs = get_provider("theirs", home=tmp_path).isolation
    assert not is_weaker("process", theirs)
    assert is_weaker(theirs, "container")
    assert is_weaker("of our own making", "container")
