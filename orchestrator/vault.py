"""Secrets at rest: sealed under a key of the operator's, so that a copy of a disk, a bucket or a database tells none.

The keys are those of `FANFOLD_SECRET_KEY`, or of the file `secret.key` in the home, which is made when the first secret is
sealed. The first key seals, each of them opens: a new one is put in front, and the old one stays until nothing is sealed
with it any more. A key is 32 random bytes in base64 (`openssl rand -base64 32`).
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import BadInput, InfrastructureError

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

    from orchestrator.settings import Settings

KEY_FILE = "secret.key"
"""In the home; 0600."""
KEY_BYTES = 32
_PLACES = "FANFOLD_SECRET_KEY (or the file secret.key in FANFOLD_HOME)"


class Vault:
    """Seals texts and opens them. Safe to use from many threads and processes."""

    def __init__(self, settings: Settings) -> None:
        self._given = settings.secret_key.get_secret_value() if settings.secret_key else None
        self._file = settings.home / KEY_FILE

    def seal(self, text: str) -> str:
        """`text` as something that tells nothing to who has no key: printable ASCII, another one each time.

        Raises `BadInput` when the keys that were given are none.
        """
        if self._given is None and not self._file.exists():
            _make(self._file)
        return self._box.encrypt(text.encode("utf-8", "surrogateescape")).decode("ascii")

    def open(self, sealed: str) -> str:
        """What was sealed. Raises `InfrastructureError` when none of the keys opens it."""
        from cryptography.fernet import InvalidToken

        if self._given is None and not self._file.exists():
            raise InfrastructureError(
                f"{self._file} is not there, so no secret can be opened here: set FANFOLD_SECRET_KEY for every process that"
                " submits or executes runs"
            )
        try:
            return self._box.decrypt(sealed.encode("utf-8", "replace")).decode("utf-8", "surrogateescape")
        except InvalidToken as exc:
            raise InfrastructureError(
                f"a secret was sealed with a key that is not here, or was changed since: check {_PLACES};"
                " it has to hold the same keys for every process, and the old ones after the new one"
            ) from exc

    @cached_property
    def _box(self) -> MultiFernet:
        from cryptography.fernet import Fernet, MultiFernet  # slow to import, and most runs have no secrets

        try:
            keys = keys_of(self._read() if self._given is None else self._given)
        except ValueError as exc:
            raise BadInput(f"{_PLACES}: {exc}") from exc
        return MultiFernet([Fernet(key) for key in keys])

    def _read(self) -> str:
        try:
            return self._file.read_text(encoding="ascii", errors="replace")
        except OSError as exc:
            raise InfrastructureError(f"{self._file}: the key of the secrets cannot be read: {exc.strerror}") from exc


def keys_of(text: str) -> list[bytes]:
    """The keys in a text, as Fernet takes them. Raises `ValueError`, which never shows what was given."""
    keys = [_key_of(part) for part in re.split(r"[,\s]+", text) if part]
    if not keys:
        raise ValueError(f"there is no key in it: `openssl rand -base64 {KEY_BYTES}` makes one")
    return keys


def _key_of(text: str) -> bytes:
    try:
        raw = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES:
        raise ValueError(
            f"there is something in it that is no key: a key is {KEY_BYTES} random bytes in base64"
            f" (`openssl rand -base64 {KEY_BYTES}`); several are separated by commas"
        )
    return base64.urlsafe_b64encode(raw)


def _make(path: Path) -> None:
    """Make a key, unless another process is faster; it is whole as soon as it is there."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(6)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError as exc:
        raise InfrastructureError(f"{path}: the key of the secrets cannot be written: {exc.strerror}") from exc
    finally:
        draft.unlink(missing_ok=True)
