"""Taking secrets out of what is recorded, also where one is cut by the borders of streamed pieces.

It hides what leaks by accident: each secret, and the forms in which programs print it (`forms_of`). Whoever runs a command with
a secret can print it in yet another form (reversed), and no filter can help that.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from functools import cached_property
from typing import Any

from orchestrator.telemetry.needles import Beginnings, pattern_of
from orchestrator.telemetry.redaction import MASK, forms_of


class Redactor:
    """Replaces every one of `secrets`, in all its forms, by `***`. The longest wins where they overlap."""

    def __init__(self, secrets: Iterable[str]) -> None:
        given = {secret for secret in secrets if secret.strip()}
        forms = {form for secret in given for form in forms_of(secret)}
        self.left = sum(1 for secret in given if not forms_of(secret))
        """How many of the secrets are too short to be hidden (`MIN_SECRET`)."""
        self._forms = forms
        self._text = re.compile(pattern_of(forms)) if forms else None

    @cached_property
    def _bytes(self) -> tuple[Beginnings, re.Pattern[bytes] | None]:
        """What streams need, made when the first one is."""
        needles = [form.encode("utf-8", "surrogateescape") for form in self._forms]
        # Latin-1 has a character for each byte: the one way to write bytes into a pattern.
        pattern = pattern_of(needle.decode("latin-1") for needle in needles)
        return Beginnings(needles), re.compile(pattern.encode("latin-1")) if needles else None

    def text(self, value: str) -> str:
        """`value` without secrets."""
        return self._text.sub(MASK, value) if self._text else value

    def data(self, value: Any) -> Any:
        """A JSON value without secrets in any of its texts and keys."""
        if self._text is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.data(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(part) for part in value]
        return value

    def stream(self) -> RedactedStream:
        """For bytes that come in pieces."""
        return RedactedStream(*self._bytes)

    async def pieces(self, content: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """Content that comes in pieces, without secrets. A binary file (NUL in its first piece) is left as it is."""
        stream: RedactedStream | None = None
        first = True
        async for piece in content:
            if first:
                stream, first = None if b"\0" in piece else self.stream(), False
            yield stream.feed(piece) if stream else piece
        if stream:
            yield stream.close()


class RedactedStream:
    """One stream of bytes. What may be the beginning of a secret is held back until it is clear that it is none."""

    def __init__(self, beginnings: Beginnings, pattern: re.Pattern[bytes] | None) -> None:
        self._beginnings = beginnings
        self._pattern = pattern
        self._held = b""

    @property
    def held(self) -> int:
        """Bytes that are held back."""
        return len(self._held)

    def feed(self, piece: bytes) -> bytes:
        """What can be let through now."""
        if self._pattern is None:
            return piece
        data = self._held + piece
        keep_from = self._beginnings.at_the_end_of(data)
        out, position = [], 0
        for match in self._pattern.finditer(data):
            if match.start() >= keep_from:
                break
            out += [data[position : match.start()], MASK.encode()]
            position = match.end()
        end = max(position, keep_from)
        self._held = data[end:]
        return b"".join([*out, data[position:end]])

    def close(self) -> bytes:
        """What was held back at the end of the stream."""
        rest, self._held = self._held, b""
        return self._pattern.sub(MASK.encode(), rest) if self._pattern else rest
