"""The `docker` provider. Needs the extra `fanfold[docker]`."""

from sandboxes.providers.docker.provider import DEFAULT_IMAGE, DockerProvider

__all__ = ["DEFAULT_IMAGE", "DockerProvider"]
