"""Taking secrets out of what is recorded, also where one is cut by the borders of streamed pieces.

It hides what leaks by accident. Whoever runs a command with a secret can print it in another form (base64, reversed), and no
filter can help that.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any

MASK = "***"
MIN_LINE = 8
"""Characters of a line of a multi-line secret (a key in PEM form) that is hidden for itself, too."""


class Redactor:
    """Replaces every one of `secrets` by `***`. The longest wins where they overlap."""

    def __init__(self, secrets: Iterable[str]) -> None:
        whole = {secret for secret in secrets if secret}
        lines = {line.strip() for secret in whole for line in secret.splitlines() if len(line.strip()) >= MIN_LINE}
        longest_first = sorted(whole | lines, key=len, reverse=True)
        self.needles = [needle.encode("utf-8", "surrogateescape") for needle in longest_first]
        self._text = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._bytes = re.compile(b"|".join(map(re.escape, self.needles))) if self.needles else None

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
        return RedactedStream(self.needles, self._bytes)

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

    def __init__(self, needles: list[bytes], pattern: re.Pattern[bytes] | None) -> None:
        self._needles = needles
        self._pattern = pattern
        self._longest = max(map(len, needles), default=0)
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be let through now."""
        if self._pattern is None:
            return piece
        data = self._held + piece
        keep_from = self._beginning_of_a_secret(data)
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

    def _beginning_of_a_secret(self, data: bytes) -> int:
        """Where the tail of `data` begins that more data could complete to a secret; its length when there is none."""
        for start in range(max(0, len(data) - self._longest + 1), len(data)):
            tail = data[start:]
            if any(len(tail) < len(needle) and needle.startswith(tail) for needle in self._needles):
                return start
        return len(data)
