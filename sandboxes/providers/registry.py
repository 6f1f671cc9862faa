"""The one door to providers: a name in, a `SandboxProvider` out. Nothing of a provider is imported before it is asked for.

Other distributions add providers through the entry point group `fanfold.providers`: a callable that takes the keyword `home`
(a folder for local state, which it may ignore) and returns a `SandboxProvider`.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Final

from sandboxes.errors import InvalidSpec, ProviderUnavailable
from sandboxes.providers.base import SandboxProvider
from sandboxes.providers.isolation import Isolation

GROUP: Final = "fanfold.providers"
IMAGE_VARIABLE: Final = "FANFOLD_DOCKER_IMAGE"
"""Environment variable: the image of Docker sandboxes whose spec names none."""
MODAL_IMAGE_VARIABLE: Final = "FANFOLD_MODAL_IMAGE"
"""Environment variable: the image of Modal sandboxes whose spec names none."""
MODAL_APP_VARIABLE: Final = "FANFOLD_MODAL_APP"
"""Environment variable: the app of Modal that sandboxes belong to."""
_DAYTONA_KEYS: Final = ("DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN")
DAYTONA_IMAGE_VARIABLE: Final = "FANFOLD_DAYTONA_IMAGE"
"""Environment variable: the image, or `snapshot:NAME`, of Daytona sandboxes whose spec names none."""


def provider_names() -> list[str]:
    """Every name that `get_provider` knows here, sorted: ours, and those of installed distributions."""
    return sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def known_isolation(name: str) -> Isolation | None:
    """The isolation of a provider of ours, without importing it; None for any other: only itself tells."""
    return _ISOLATION.get(name)


def has_key(name: str) -> bool:
    """Whether a provider of a cloud has a key here, as far as can be seen without its SDK; True for any other provider."""
    if name == "modal":
        file = Path(os.environ.get("MODAL_CONFIG_PATH", "~/.modal.toml")).expanduser()
        return bool(os.environ.get("MODAL_TOKEN_ID")) or file.exists()
    return name != "daytona" or any(map(os.environ.get, _DAYTONA_KEYS)) or any(map(_tells_a_key, (".env", ".env.local")))


def _tells_a_key(file: str) -> bool:
    """Whether a file of variables, which Daytona's SDK reads where it is started, has a key for it."""
    try:
        text = Path(file).read_text(errors="replace")
    except OSError:
        return False
    return any(key in text for key in _DAYTONA_KEYS)


def shortcomings() -> dict[str, str | None]:
    """Every name that `get_provider` knows here, with why none of its sandboxes can be made in this process.

    None is for those that may make some, as far as can be seen without importing or asking anything.
    """
    return {name: _shortcoming(name) for name in provider_names()}


def _shortcoming(name: str) -> str | None:
    sdk = _SDKS.get(name)
    if sdk is not None and find_spec(sdk.module) is None:
        return sdk.missing(name)
    return None if has_key(name) else f"there is no key for it: set {_KEYS[name]}"


def get_provider(name: str, *, home: Path) -> SandboxProvider:
    """The provider of this name, not connected to anything yet. `home` is the folder of providers with local state.

    Raises `InvalidSpec` for a name that nobody has, `ProviderUnavailable` when what it needs is not installed.
    """
    built_in = _BUILT_IN.get(name)
    if built_in is not None:
        return built_in(home)
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    if point is None:
        raise InvalidSpec(unknown(name, provider_names()))
    return _third_party(point, home)


def unknown(name: str, names: Sequence[str]) -> str:
    """What is wrong with a name that is none of these."""
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"there is no sandbox provider {name!r}.{hint} Installed are: {', '.join(names)}"


def _local(home: Path) -> SandboxProvider:
    module = importlib.import_module("sandboxes.providers.local")
    made: SandboxProvider = module.LocalProvider(home)
    return made


def _docker(_home: Path) -> SandboxProvider:
    module = _with_sdk("docker")
    made: SandboxProvider = module.DockerProvider(os.environ.get(IMAGE_VARIABLE) or module.DEFAULT_IMAGE)
    return made


def _modal(_home: Path) -> SandboxProvider:
    module = _with_sdk("modal")
    image = os.environ.get(MODAL_IMAGE_VARIABLE) or module.DEFAULT_IMAGE
    made: SandboxProvider = module.ModalProvider(image, app=os.environ.get(MODAL_APP_VARIABLE) or module.DEFAULT_APP)
    return made


def _daytona(_home: Path) -> SandboxProvider:
    module = _with_sdk("daytona")
    made: SandboxProvider = module.DaytonaProvider(os.environ.get(DAYTONA_IMAGE_VARIABLE, ""))
    return made


@dataclass(frozen=True)
class _Sdk:
    """What a provider of ours needs."""

    module: str
    title: str
    packages: tuple[str, ...]
    """What its packages begin with."""

    def missing(self, name: str) -> str:
        return f"provider {name!r} needs {self.title}, which is not installed: pip install 'fanfold[{name}]'"


_SDKS: Final[Mapping[str, _Sdk]] = MappingProxyType(
    {
        "docker": _Sdk("docker", "the Docker SDK for Python", ("docker",)),
        "modal": _Sdk("modal", "Modal's SDK", ("modal", "modal_proto", "grpclib")),
        "daytona": _Sdk("daytona", "the Daytona SDK", ("daytona",)),
    }
)
_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {"modal": "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or write ~/.modal.toml", "daytona": "DAYTONA_API_KEY"}
)


def _with_sdk(name: str) -> ModuleType:
    """The module of a provider. Raises `ProviderUnavailable` without its SDK."""
    sdk = _SDKS[name]
    try:
        return importlib.import_module(f"sandboxes.providers.{name}")
    except ModuleNotFoundError as exc:
        if exc.name is None or not exc.name.partition(".")[0].startswith(sdk.packages):
            raise
        raise ProviderUnavailable(sdk.missing(name)) from exc


_BUILT_IN: Final[Mapping[str, Callable[[Path], SandboxProvider]]] = MappingProxyType(
    {"local": _local, "docker": _docker, "modal": _modal, "daytona": _daytona}
)
_ISOLATION: Final[Mapping[str, Isolation]] = MappingProxyType(
    {"local": "process", "docker": "container", "modal": "machine", "daytona": "machine"}
)


def _third_party(point: EntryPoint, home: Path) -> SandboxProvider:
    where = f"provider {point.name!r} ({point.value})"
    try:
        factory = point.load()
    except (ImportError, AttributeError) as exc:
        raise ProviderUnavailable(f"{where} cannot be loaded: {exc}; install its distribution again") from exc
    made = factory(home=home)
    if not isinstance(made, SandboxProvider):
        raise ProviderUnavailable(f"{where} returned a {type(made).__name__}, which is not a SandboxProvider")
    return made
