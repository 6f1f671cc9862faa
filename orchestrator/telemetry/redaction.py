"""What must not be seen: secrets, in the forms in which programs print them, and whatever looks like a key.

It hides what leaks by accident. Whoever runs a command with a secret can print it in yet another form, and no filter can help
that.
"""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, quote_plus

from orchestrator.telemetry.needles import pattern_of

MASK = "***"
MIN_SECRET = 4
"""Characters below which a secret is not hidden: it would take the readable text with it."""
MIN_LINE = 8
"""Characters of a line of a multi-line secret (a key in PEM form) that is hidden for itself, too."""
MIN_FORM = 6
"""Characters below which another form of a secret is not hidden."""
WRAPPED = (64, 76)
"""Characters of a line of base64, as programs write it."""

KEYS = re.compile(
    r"""
    (?i: \bauthorization\W{1,5}(?:basic|bearer|token)\s+                   # a header, or
        | \bbearer\s+(?=[A-Z._~+/-]*[0-9]) )                               # a part of one, if it does not look like a word
        (?P<token>[A-Za-z0-9._~+/-]{8,}=*)
    | \b(?:ffk_[A-Za-z0-9_-]{8,}                                            # ours
        | sk-[A-Za-z0-9_-]{16,} | AIza[A-Za-z0-9_-]{30,}                    # of providers of models
        | gh[opsur]_[A-Za-z0-9]{30,} | github_pat_[A-Za-z0-9_]{30,} | glpat-[A-Za-z0-9_-]{16,}
        | xox[abprs]-[A-Za-z0-9-]{10,} | AKIA[A-Z0-9]{16} | whsec_[A-Za-z0-9+/=_-]{8,}
        | eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})    # a JSON web token
    | (?<=://)(?P<user>[^\s/@:"'<>]*):(?P<password>[^\s/"'<>]+?)(?=@[^\s/@]*(?:[\s/"'?#]|$))  # user:password@ in addresses
    """,
    re.VERBOSE,
)
"""What looks like a key, whoever's it is."""


def forms_of(secret: str) -> set[str]:
    """The texts that are hidden for a secret: itself, its lines, and each as programs encode it. Empty for one too short.

    Encoded are: base64 in all three alignments and both alphabets, as one line and in lines; hexadecimal; percent-encoding; and
    texts in JSON, Python and HTML.
    """
    if len(secret.strip()) < MIN_SECRET:
        return set()
    lines = {line.strip() for line in secret.splitlines() if len(line.strip()) >= MIN_LINE}
    found = {secret, *lines}
    for text in {secret, secret.strip()}:
        encoded = {*_escaped(text), *_in_base64(text.encode("utf-8", "surrogateescape"))}
        found |= {form for form in encoded if len(form) >= MIN_FORM}
    return found


def _escaped(text: str) -> set[str]:
    data = text.encode("utf-8", "surrogateescape")
    percent = {quote(data, safe=""), quote(data), quote_plus(data)}
    return {
        *percent,
        *(re.sub("%..", lambda found: found[0].lower(), form) for form in percent),
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(text))[3:-3],
        repr(text)[1:-1],
        html.escape(text),
        data.hex(),
        data.hex().upper(),
    }


def _in_base64(data: bytes) -> set[str]:
    """Those characters of base64 that `data` alone decides, wherever it stands in what is encoded."""
    found = {base64.b64encode(data).decode()}
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data).decode()
        found.add(whole[-(-8 * before // 6) : 8 * (before + len(data)) // 6])
    first = base64.b64encode(data).decode()
    for width in WRAPPED:
        if len(first) > width:
            found |= {line for line in (first[i : i + width] for i in range(0, len(first), width)) if len(line) >= MIN_LINE}
    return found | {form.replace("+", "-").replace("/", "_") for form in found}


def without_keys(text: str) -> str:
    """`text` without what looks like a key."""
    return KEYS.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    if token := found["token"]:
        return found[0].removesuffix(token) + MASK
    return f"{found['user']}:{MASK}" if found["password"] else MASK


class Masks:
    """What hides the secrets that this process knows at this moment. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[object, Callable[[str], str]] = {}
        self._all: tuple[Callable[[str], str], ...] = ()

    def hold(self, owner: object, hide: Callable[[str], str]) -> None:
        """Hide what `hide` takes out of a text, until the owner (a run) lets go."""
        with self._lock:
            self._held[owner] = hide
            self._all = tuple(self._held.values())

    def let_go(self, owner: object) -> None:
        """What this owner held need not be hidden any more, unless another one holds it."""
        with self._lock:
            self._held.pop(owner, None)
            self._all = tuple(self._held.values())

    @contextmanager
    def hiding(self, secrets: Iterable[str]) -> Iterator[None]:
        """Hide these secrets until the end of the block."""
        forms = {form for secret in set(secrets) for form in forms_of(secret)}
        if not forms:
            yield
            return
        owner, pattern = object(), re.compile(pattern_of(forms))
        self.hold(owner, lambda text: pattern.sub(MASK, text))
        try:
            yield
        finally:
            self.let_go(owner)

    def text(self, value: str) -> str:
        """`value` without these secrets, and without what looks like a key."""
        for hide in self._all:
            value = hide(value)
        return without_keys(value)

    def data(self, value: Any) -> Any:
        """`value` with the same done to all texts in it, keys too; what is neither a text nor a number becomes a text."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, dict):
            return {self.text(str(key)): self.data(part) for key, part in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.data(part) for part in value]
        return self.text(str(value))
