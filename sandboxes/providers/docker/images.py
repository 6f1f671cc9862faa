"""Images: found on the engine, pulled when allowed, and looked into without running anything of them."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import secrets
import stat
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from docker import APIClient
from docker.errors import APIError, ImageNotFound, NotFound

from sandboxes import errors
from sandboxes.providers.docker import layout

Pull = Literal["missing", "never"]

PULL_SECONDS: Final = 900
"""How long pulling an image may take."""
FILE_CAP: Final = 4 * 1024 * 1024
"""Bytes of a file of the image that we read at most."""


@dataclass(frozen=True)
class Image:
    """What an image says of itself."""

    id: str
    user: str
    unset: tuple[str, ...] = ()
    """Names of variables that its containers must not get."""


def find(api: APIClient, name: str, pull: Pull) -> Image:
    """The image of this name, pulled first if it is missing and that is allowed. Raises our `ImageNotFound`."""
    try:
        found = inspect(api, name)
    except ImageNotFound as exc:
        if name.startswith((f"{layout.FORK_IMAGES}:", f"{layout.BUILT_IMAGES}:")):  # nobody's, on any registry
            raise errors.ImageNotFound(f"image {name!r} was Fanfold's own and is not there any more: give a spec") from exc
        if pull == "never":
            raise errors.ImageNotFound(
                f"image {name!r} is not on the Docker engine, and this provider does not pull: "
                f"build it or `docker pull {name}` first"
            ) from exc
        _pull(api, name)
        found = inspect(api, name)
    told = found.get("Config") or {}
    labels = told.get("Labels") or {}
    if not name.startswith(f"{layout.FORK_IMAGES}:"):
        _check_labels(name, labels)
    unset = json.loads(labels.get(layout.UNSET_LABEL, "[]"))
    return Image(str(found["Id"]), str(told.get("User") or ""), tuple(unset))


def _check_labels(name: str, labels: Mapping[str, str]) -> None:
    """A container has the labels of its image: a stranger's image must not say for us what its sandbox is."""
    if own := sorted(key for key in labels if key.startswith(layout.OWN_LABELS) and key != layout.BUILT_LABEL):
        raise errors.InvalidSpec(f"image {name!r} has labels that are Fanfold's own ({', '.join(own)[:200]}): build it without")


def inspect(api: APIClient, name: str) -> dict[str, Any]:
    """What the engine tells of an image. Raises the SDK's `ImageNotFound`."""
    found: dict[str, Any] = api.inspect_image(name)  # type: ignore[no-untyped-call]
    return found


def _pull(api: APIClient, name: str) -> None:
    end = time.monotonic() + PULL_SECONDS
    repository, _, tag = name.partition("@") if "@" in name else _split(name)
    failure: str | None = None
    try:
        for progress in api.pull(repository, tag=tag, stream=True, decode=True):
            failure = progress.get("error", failure)
            if time.monotonic() > end:
                failure = f"it took longer than {PULL_SECONDS} s"
                break
    except APIError as exc:
        failure = str(exc.explanation or exc)
    if failure is not None:
        raise errors.ImageNotFound(
            f"image {name!r} is not on the Docker engine and could not be pulled: {failure}. "
            "Check its name, or build or pull it by yourself first"
        )


def _split(name: str) -> tuple[str, str, str]:
    last = name.rpartition("/")[2]
    repository, colon, tag = name.rpartition(":") if ":" in last else (name, "", "")
    return repository, colon, tag or "latest"


@contextmanager
def opened(api: APIClient, image: str) -> Iterator[str]:
    """A container of the image that is never started: its files can be looked at, nothing of it runs."""
    made: str = api.create_container(image, command=["/"], network_disabled=True, labels={layout.PORTER_LABEL: "reader"})["Id"]
    try:
        yield made
    finally:
        api.remove_container(made, force=True, v=True)


def read_text(api: APIClient, container: str, path: str) -> str:
    """A small text file; empty when it is missing, or no regular file."""
    try:
        chunks, _ = api.get_archive(container, path)
    except NotFound:
        return ""
    packed = bytearray()
    for chunk in chunks:
        packed += chunk
        if len(packed) > FILE_CAP:
            raise errors.SandboxError(f"the image's {path} has more than {FILE_CAP} bytes")
    with tarfile.open(fileobj=io.BytesIO(bytes(packed))) as archive:
        member = archive.next()
        content = archive.extractfile(member) if member is not None and member.isfile() else None
        return "" if content is None else content.read().decode("utf-8", "replace")


def mode(api: APIClient, container: str, path: str) -> int:
    """The mode (Go's) of what is at a path of a container. The SDK only asks for it together with the content."""
    sdk: Any = api
    answer = sdk.head(sdk._url("/containers/{0}/archive", container), params={"path": path}, timeout=sdk.timeout)
    sdk._raise_for_status(answer)
    return int(json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))["mode"])


def kind(api: APIClient, container: str, path: str) -> Literal["missing", "folder", "file"]:
    """What is at a path of the image."""
    try:
        chunks, status = api.get_archive(container, path)
    except NotFound:
        return "missing"
    chunks.close()
    # The engine sends Go's file mode, in which the highest bit means a directory.
    return "folder" if status["mode"] & (1 << 31) or stat.S_ISDIR(status["mode"]) else "file"


def of_files(api: APIClient, sandbox_id: str) -> str:
    """An image with what a sandbox has changed of its own; its name. It hands none of the sandbox's environment on."""
    told = api.inspect_container(sandbox_id)["Config"]
    below = inspect(api, told["Image"])["Config"]
    env, labels = below.get("Env") or [], below.get("Labels") or {}
    own = {one.partition("=")[0] for one in told.get("Env") or ()} - {one.partition("=")[0] for one in env}
    unset = sorted({*json.loads(labels.get(layout.UNSET_LABEL, "[]")), *own})
    tag = secrets.token_hex(8)
    marks = {layout.UNSET_LABEL: json.dumps(unset), layout.SANDBOX_LABEL: sandbox_id}
    conf = {"Env": [*env, *(f"{name}=" for name in sorted(own))], "Labels": marks}
    api.commit(sandbox_id, layout.FORK_IMAGES, tag, conf=conf)
    return f"{layout.FORK_IMAGES}:{tag}"


def of_fork(api: APIClient, sandbox_id: str) -> str | None:
    """The image of a sandbox, when it was made for a fork."""
    try:
        name = str(api.inspect_container(sandbox_id)["Config"]["Image"])
    except NotFound:
        return None
    return name if name.startswith(f"{layout.FORK_IMAGES}:") else None


def forget_forks(api: APIClient, sandbox_id: str, image: str | None) -> None:
    """Remove the images that were made to fork a sandbox, and its own, unless others still need them."""
    made = api.images(layout.FORK_IMAGES, filters={"label": f"{layout.SANDBOX_LABEL}={sandbox_id}"})
    for name in {*(tag for one in made for tag in one.get("RepoTags") or ()), *([image] if image else [])}:
        with contextlib.suppress(APIError):  # in use, or gone
            api.remove_image(name)
