"""The Modal provider. Needs the SDK: `fanfold[modal]`."""

from sandboxes.providers.modal.provider import DEFAULT_APP, DEFAULT_IMAGE, ModalProvider

__all__ = ["DEFAULT_APP", "DEFAULT_IMAGE", "ModalProvider"]
